package local

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

// newSecret returns a password that nobody can guess. It needs no escaping in a URL,
// in SQL or in a configuration file.
func newSecret() string { return rand.Text() }

// writeSecret writes a file in the folder dir that no other user can read. Servers
// get their passwords from such a file, because every user can see command lines.
func writeSecret(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the file %s: %w", name, err)
	}
	return nil
}
