#!/usr/bin/env bash
# Train and benchmark on a lent GPU machine that reaches nothing outside it and takes 64 MiB a call.
#
#   bash Testing/benchmarks/gpu.sh keep FOLDER       once for each folder that was carried there: training scans,
#                                                    labelled scans, SimpleITK's wheel; they add up in $KEEP
#   bash Testing/benchmarks/gpu.sh train STEPS [anatemb train options]
#                                                    prepare, train, evaluate; weights, curve and tables go to $OUT
#
#   bash Testing/benchmarks/gpu.sh refine STEPS [anatemb train options]
#                                                    STEPS of the recipe `joint` from the default weights, on scans
#                                                    aligned by them and images of the label maps in $KEEP/labelmaps
#
#   bash Testing/benchmarks/gpu.sh weights TERMS HOURS [anatemb weights options]
#                                                    all files that ship with weights, from the data folder $KEEP/data
#                                                    (or $DATA); the results go to $OUT, the build stays in $KEEP
#
# A run that is cut off goes on from its checkpoint: call again with the same arguments while the machine lives.
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
    python3 Testing/benchmarks/evaluate.py phantoms --model "$OUT/weights.safetensors" | tee "$OUT/phantoms.txt"
    python3 Testing/benchmarks/speed.py | tee "$OUT/speed.txt"
    ;;
refine)
    steps=$2
    shift 2
    python3 -c 'import SimpleITK' 2>/dev/null || python3 -m pip install --quiet --no-index --no-deps "$KEEP"/*/simpleitk*.whl
    export PYTHONPATH=$PWD
    anatemb() { python3 -m AnatomicalEmbedding "$@"; }
    mkdir -p "$OUT"
    levels=$(find "$KEEP" -name '*levels.json' | head -n 1)
    folders=$(find "$KEEP" -maxdepth 1 -name train -o -maxdepth 1 -name kbp)
    # shellcheck disable=SC2086
    anatemb prepare $folders --levels "$levels" --recipe hybrid --align-with auto --jobs "$(nproc)" -o "$KEEP/set"
    anatemb train "$KEEP/set" -o "$KEEP/joint" --recipe joint --steps "$steps" --name hybrid-ct-new --validate-every 0 \
        --start-from auto --label-maps "$KEEP/labelmaps" --label-images 2 --phantoms 40 --device auto \
        --workers "$(nproc)" --set optimiser.learning_rate=0.001 --set optimiser.frozen_statistics=true "$@"
    cp "$KEEP/joint/weights.safetensors" "$KEEP/joint/loss.csv" "$OUT/"
    python3 Testing/benchmarks/regions.py "$KEEP/dev" --model auto --model "$OUT/weights.safetensors" | tee "$OUT/regions.txt"
    ;;
weights)
    terms=$2 hours=$3
    shift 3
    python3 -c 'import SimpleITK' 2>/dev/null || python3 -m pip install --quiet --no-index --no-deps "$KEEP"/*/simpleitk*.whl
    export PYTHONPATH=$PWD
    mkdir -p "$OUT"
    python3 -m AnatomicalEmbedding weights "${DATA:-$KEEP/data}" -o "$KEEP/weights-$terms" --terms "$terms" --hours "$hours" \
        --device auto --workers "$(nproc)" --jobs "$(nproc)" "$@"
    find "$KEEP/weights-$terms" -maxdepth 1 -type f -exec cp {} "$OUT/" \;
    ;;
*)
    sed -n '2,18s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
