# One-line faces over the scripts and the CMake presets; nothing is decided here.
.PHONY: all demo test bench soak fuzz lint install clean
all:     ; ./scripts/setup build && ./scripts/build release
demo:    ; ./scripts/demo
test:    ; ./scripts/test
bench:   ; ./scripts/bench
soak:    ; ./scripts/soak
fuzz:    ; ./scripts/fuzz
lint:    ; ./scripts/setup test && ./scripts/build dev && ./tools/lint.sh build/dev
install: all ; cmake --install build/release
clean:   ; rm -rf build
