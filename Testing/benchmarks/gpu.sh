#!/usr/bin/env bash
# Train and benchmark on a lent GPU machine that reaches nothing outside it and takes 64 MiB a call.
#
#   bash Testing/benchmarks/gpu.sh keep FOLDER       once for each folder that was carried there: training scans,
#                                                    labelled scans, SimpleITK's wheel; they add up in $KEEP
#   bash Testing/benchmarks/gpu.sh train STEPS [anatemb train options]
#                                                    prepare, train, evaluate; weights, curve and tables go to $OUT
#
# A run that is cut off goes on from its checkpoint: call `train` again with the same arguments while the machine lives.
set -euo pipefail
KEEP=${KEEP:-/tmp/anatemb}
OUT=${OUT:-$KEEP/out}
case "${1:-}" in
keep)
    mkdir -p "$KEEP"
    cp -r "$2" "$KEEP/"
    du -sh "$KEEP"/*
    ;;
train)
    steps=$2
    shift 2
    python3 -c 'import SimpleITK' 2>/dev/null || python3 -m pip install --quiet --no-index --no-deps "$KEEP"/*/simpleitk*.whl
    export PYTHONPATH=$PWD
    anatemb() { python3 -m AnatomicalEmbedding "$@"; }
    mkdir -p "$OUT"
    levels=$(find "$KEEP" -name '*levels.json' | head -n 1)
    anatemb train "$KEEP/train" --levels "$levels" -o "$KEEP/run" --steps "$steps" --device auto \
        --workers "$(nproc)" "$@"
    cp "$KEEP/run/weights.safetensors" "$KEEP/run/loss.csv" "$OUT/"
    anatemb evaluate landmarks "$KEEP/dev" --model "$OUT/weights.safetensors" | tee "$OUT/landmarks.txt"
    anatemb evaluate phantoms --model "$OUT/weights.safetensors" | tee "$OUT/phantoms.txt"
    python3 Testing/benchmarks/speed.py | tee "$OUT/speed.txt"
    python3 Testing/benchmarks/training.py --steps 40 | tee "$OUT/training.txt"
    ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
