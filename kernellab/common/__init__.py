"""What every part of KernelLab needs: progress, worker processes, text, JSON, options."""
