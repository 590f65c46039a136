package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// checkAlone fails the test unless the folder contains exactly n files.
func checkAlone(t *testing.T, dir string, n int) {
	t.Helper()
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != n {
		t.Errorf("files: %v, %v; want %d", all, err, n)
	}
}

// If the path is a link, the target of the link is replaced; if it is a device, the device is
// written to.
func TestFileGoesWhereThePathLeads(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{link, os.DevNull} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("new")); err != nil {
			t.Error(err)
		}
		if err := errors.Join(f.Commit(), f.Close()); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("behind the link there is %q, %v", text, err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is a file now: %v", os.DevNull, err)
	}
	checkAlone(t, dir, 2)
	t.Chdir(dir)
	for a, b := range map[string]string{file: link, link: "./file", "new": filepath.Join(dir, "new")} {
		if !Same(a, b) {
			t.Errorf("%s and %s are not the same", a, b)
		}
	}
	for a, b := range map[string]string{file: "new", os.DevNull: os.DevNull, "no/file": "file"} {
		if Same(a, b) {
			t.Errorf("%s and %s are the same", a, b)
		}
	}
}

// If an error occurs while the new file is written, the old file stays.
func TestOldFileStaysUntilTheNewOneIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "ne")
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("Write: %v, want %v", err, broken)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("there is %q, %v", text, err)
	}
	if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil || string(text) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("there is %q, %v, %v", text, info.Mode(), err)
	}
	checkAlone(t, dir, 1)
	nothing := func(io.Writer) error { return nil }
	if err := Write(filepath.Join(dir, "none", "x"), nothing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Write into no folder: %v", err)
	}
}
