"""Public names for type checkers and :mod:`vrtspike.lazy_names`; ``as`` makes a name public."""

from vrtspike.sst.base_trainer import MODEL_SAVE_PATH as MODEL_SAVE_PATH
from vrtspike.sst.base_trainer import BaseTrainer as BaseTrainer
from vrtspike.sst.base_trainer import read_model as read_model
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset as ERA5SSTMonthlyDataset
from vrtspike.sst.generate import Globe as Globe
from vrtspike.sst.generate import write_example as write_example
from vrtspike.sst.grid import Area as Area
from vrtspike.sst.model import RecursiveAttentionTransformer as RecursiveAttentionTransformer
from vrtspike.sst.preparation import prepare as prepare
