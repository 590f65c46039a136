// Package atomicfile writes files completely or not at all.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// File is a file that is written completely or not at all: it keeps its old contents until Commit.
// Call Close at the end. It is not safe for concurrent use.
type File struct {
	path   string   // of the file to replace
	beside *os.File // temporary file with the new contents

	// there is the existing file, open for writing. It is set only if that file is a device or a pipe, or if no
	// temporary file can be created. The new contents are then kept in memory until Commit writes them to it.
	there *os.File
	kept  bytes.Buffer
}

// Create checks that a file can be written at path. It does not change an existing file. If path is a symbolic
// link to a file that exists, Commit replaces that file. The errors name the path.
func Create(path string) (*File, error) {
	path = follow(path)
	there, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return newBeside(path, 0o666) // the umask applies
	}
	if err != nil {
		return nil, err
	}
	info, err := there.Stat()
	if err != nil {
		return nil, errors.Join(err, there.Close())
	}
	if !info.Mode().IsRegular() {
		return &File{path: path, there: there}, nil // a device or a pipe
	}
	f, err := newBeside(path, info.Mode().Perm())
	if err != nil {
		return &File{path: path, there: there}, nil // the file is writable, but its folder is not
	}
	if err := errors.Join(f.beside.Chmod(info.Mode().Perm()), there.Close()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// follow returns the path of the file that Commit replaces.
func follow(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// Same reports whether Files of both paths would replace each other's contents. Several Files may be written to
// one device or pipe.
func Same(a, b string) bool {
	a, b = follow(a), follow(b)
	if info, err := os.Stat(a); err == nil && !info.Mode().IsRegular() {
		return false
	}
	inA, errA := os.Stat(filepath.Dir(a))
	inB, errB := os.Stat(filepath.Dir(b))
	return filepath.Base(a) == filepath.Base(b) && errA == nil && errB == nil && os.SameFile(inA, inB)
}

// newBeside creates the temporary file beside path. Its errors name path.
func newBeside(path string, mode fs.FileMode) (*File, error) {
	beside, err := os.OpenFile(path+"."+uuid.NewString()[:8], os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	var at *fs.PathError
	if errors.As(err, &at) {
		return nil, &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	return &File{path: path, beside: beside}, err
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if f.there != nil {
		return f.kept.Write(p)
	}
	return f.beside.Write(p)
}

// Commit replaces the old contents with the new ones.
func (f *File) Commit() error {
	if err := f.put(); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return nil
}

func (f *File) put() error {
	if f.there != nil {
		if info, err := f.there.Stat(); err == nil && info.Mode().IsRegular() {
			if err := f.there.Truncate(0); err != nil {
				return err
			}
		}
		_, err := f.kept.WriteTo(f.there)
		return err
	}
	if err := f.beside.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.beside.Name(), f.path); err != nil {
		return err
	}
	f.beside = nil
	return nil
}

// Close discards the new contents, unless they were committed.
func (f *File) Close() error {
	if f.there != nil {
		return f.there.Close()
	}
	if f.beside == nil {
		return nil
	}
	_ = f.beside.Close() // it may be closed already
	if err := os.Remove(f.beside.Name()); err != nil {
		return fmt.Errorf("removing an unfinished file: %w", err)
	}
	return nil
}

// Write replaces the contents of the file at path with what draw writes. If draw fails, the file is unchanged.
func Write(path string, draw func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(f.Fill(draw), f.Close())
}

// Fill calls draw to write the new contents, and commits them.
func (f *File) Fill(draw func(io.Writer) error) error {
	if err := draw(f); err != nil {
		return err
	}
	return f.Commit()
}
