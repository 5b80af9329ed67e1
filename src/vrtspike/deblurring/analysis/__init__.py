"""Pictures and tables of spikes, and logs of the scripts that came before."""
