"""What every part of KernelLab needs: progress, a worker process, formatting, JSON, option "
"values."""
