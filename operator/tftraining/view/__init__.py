"""What commands show of jobs, pods and events. Pure: objects and the time in, text out."""
