"""Text logs of an earlier program: of its timing logger, its training and its model."""

from __future__ import annotations

BLOCK = """\
================================================================================
Step {step}
================================================================================
前向传播总耗时                                 :   {forward:.2f}ms ( 45.2%) [avg:   280.00ms]
VRT处理                                   :   150.00ms ( 24.2%) [avg:   150.00ms]
  - Stage1                              :    25.00ms [avg:    25.00ms]
  - Stage2                              :    23.00ms [avg:    23.00ms]
Spike时间自注意力                             :    80.00ms ( 12.9%) [avg:    80.00ms]
  - Self-Attention                      :    50.00ms [avg:    50.00ms]
  - FFN                                 :    20.00ms [avg:    20.00ms]
  - 维度转换                                :    10.00ms [avg:    10.00ms]
VRT融合                                   :    60.00ms (  9.7%)
Spike编码器                                :    50.00ms (  8.1%)
Total-----------------------------------:   620.00ms

"""

TRAIN = """\
[train]   - num_workers: 10 (每GPU)
[After dataset creation] Memory - Process: 12345.6MB (4.8%), System: 48.3/256.0GB (18.9%)
step 50/8880 | epoch 1 | loss=9.0 | lr=2.0e-04 | 0.1 samples/s | data_time=900.0ms
step 100/8880 | epoch 1 | loss: 0.50 | lr=1.0e-04 | 0.4 samples/s | data_time=30.0ms
[Step 100] Memory - Process: 15678.9MB (6.1%), System: 125.4/256.0GB (49.0%)
[SpikeDeblurDataset] Cache Stats:
  - Size: 374 items
  - Memory: 49876.3 / 51200.0 MB
  - Hit Rate: 82.45% (8245 hits / 1755 misses)
step 150/8880 | epoch 1 | 0.6 samples/s | data_time=10.0ms
[Step 200] Memory - Process: 15000.0MB (6.1%), System: 233.4/256.0GB (91.2%)
⚠️  WARNING: System memory usage is critically high (91.2%)!
"""

PRINTED = """\
[主模型] 步骤1: Spike编码器
  [SpikeEncoder3D] 尺度0 (输入投影+残差): 45.23ms, 输出shape: torch.Size([1, 96, 4, 256, 256])
  [SpikeEncoder3D] 总耗时: 128.40ms
[主模型] Spike编码器总耗时: 128.40ms
[主模型] Spike时间自注意力总耗时: 567.89ms
  [VRT] Stage 1 (1x分辨率)耗时: 234.56ms
  [VRT] Stage 2 (1/2x分辨率)耗时: 269.33ms
[主模型] VRT处理总耗时: 1234.56ms
前向传播总耗时: 1930.85ms
  - Spike编码器: 128.40ms (6.7%)
  - VRT处理与融合: 1234.56ms (63.9%)
"""
