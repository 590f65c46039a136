package site

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Lab is the lab, compiled to WebAssembly.
type Lab struct {
	Packed   []byte // compressed with gzip
	Unpacked int    // bytes
	Start    []byte // the script that starts it, from the same version of Go
}

// program is the package of the lab for a browser.
const program = "oversell/internal/site/browser"

// ErrSource is wrapped by the error if the go command or the source is missing.
var ErrSource = errors.New("the lab in a browser is compiled from this project's source, with the go command: " +
	"run this in a folder of the source")

// BuildLab compiles the lab with the go command, from the source in the current folder.
func BuildLab(ctx context.Context) (Lab, error) {
	root, err := run(ctx, nil, "env", "GOROOT")
	if err != nil {
		return Lab{}, err
	}
	start, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return Lab{}, fmt.Errorf("reading Go's script for WebAssembly: %w", err)
	}
	browser := []string{"GOOS=js", "GOARCH=wasm"}
	if _, err := run(ctx, browser, "list", program); err != nil {
		return Lab{}, fmt.Errorf("%w: %w", ErrSource, err)
	}
	dir, err := os.MkdirTemp("", "oversell-lab-")
	if err != nil {
		return Lab{}, fmt.Errorf("compiling the lab for a browser: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "lab.wasm")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, program}
	if _, err := run(ctx, browser, args...); err != nil {
		return Lab{}, err
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return Lab{}, fmt.Errorf("compiling the lab for a browser: %w", err)
	}
	packed, err := pack(code)
	return Lab{Packed: packed, Unpacked: len(code), Start: start}, err
}

// run runs the go command with additions to the environment, and returns its output.
func run(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: %w", ErrSource, err)
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func pack(code []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(code)
		err = errors.Join(err, w.Close())
	}
	return packed.Bytes(), err
}
