"""The peak memory of a command: `peak.py WORKLOAD THREADS LIBRARY command…` prints a row."""
import resource
import subprocess
import sys

workload, threads, library, *command = sys.argv[1:]
rows = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
kibibytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
# a library may lack the workload
if rows:
    print(f"{workload},peak memory,{threads},{library},{kibibytes / 1024:.1f},MiB")
