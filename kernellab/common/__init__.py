"""What every part of the lab needs: progress, a worker process, formatting, JSON, option values."""
