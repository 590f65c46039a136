package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DatabaseUser and DatabaseName are what a private database server knows.
// The user needs no password from this machine and may do everything.
const (
	DatabaseUser = "oversell"
	DatabaseName = "oversell"
)

// createDatabase is run by the server at every start, before the first
// connection. Each statement stays on one line: init files are read so.
const createDatabase = `CREATE DATABASE IF NOT EXISTS ` + DatabaseName + `;
CREATE USER IF NOT EXISTS '` + DatabaseUser + `'@'` + host + `';
GRANT ALL ON *.* TO '` + DatabaseUser + `'@'` + host + `';
`

// StartDatabase runs a private MariaDB or MySQL server with an empty database
// DatabaseName. It gives up durability for speed: what it holds is thrown
// away with it.
//
// The error wraps ErrMissing when no server, or not all of one, is installed.
func StartDatabase(ctx context.Context) (*Server, error) {
	d, err := findDatabase(ctx)
	if err != nil {
		return nil, err
	}
	return Start(ctx, Command{
		Name:    d.name,
		Path:    d.server,
		Args:    d.args,
		Prepare: d.prepare,
		Ready:   greets,
		Timeout: time.Minute,
	})
}

// database is an installed server: MariaDB, whose data folder is made by a
// script, or MySQL, which makes its own.
type database struct {
	name    string
	server  string
	install string // MariaDB's script; empty for MySQL
}

// findDatabase looks for MariaDB first, because it starts in half a second
// where MySQL takes several. A mysqld may be either.
func findDatabase(ctx context.Context) (database, error) {
	server, err := lookPath("mariadbd", "mysqld")
	if err != nil {
		return database{}, fmt.Errorf("mariadbd or mysqld %w (it is often in /usr/sbin): install it with `apt-get install mariadb-server` or `brew install mariadb`", ErrMissing)
	}
	maria, err := isMariaDB(ctx, server)
	if err != nil {
		return database{}, err
	}
	if !maria {
		return database{name: "mysqld", server: server}, nil
	}
	install, err := lookPath("mariadb-install-db", "mysql_install_db")
	if err != nil {
		return database{}, fmt.Errorf("mariadb-install-db %w: install it with `apt-get install mariadb-server` or `brew install mariadb`", ErrMissing)
	}
	return database{name: "mariadbd", server: server, install: install}, nil
}

// lookPath finds the first of the names that is in the PATH.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// isMariaDB asks a server binary what it is: mysqld is a link to mariadbd on
// many systems.
func isMariaDB(ctx context.Context, server string) (bool, error) {
	out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		return false, fmt.Errorf("ask %s for its version: %w", server, err)
	}
	return strings.Contains(string(out), "MariaDB"), nil
}

// prepare makes the data folder and the file of createDatabase.
func (d database) prepare(ctx context.Context, dir string, _ int) error {
	if err := os.WriteFile(initFile(dir), []byte(createDatabase), 0o600); err != nil {
		return fmt.Errorf("write the init file: %w", err)
	}
	log := filepath.Join(dir, "install-log")
	cmd := exec.Command(d.installer(), append([]string{"--no-defaults"}, d.installArgs(dir)...)...)
	p, err := startLogged(cmd, log)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.KillGroup() // a script, with the server as its child
		return fmt.Errorf("make the data folder: %w", context.Cause(ctx))
	}
	if state := p.State(); !state.Success() {
		return fmt.Errorf("make the data folder: %s%s", state, lastLines(log))
	}
	return nil
}

func (d database) installer() string {
	if d.install != "" {
		return d.install
	}
	return d.server
}

func (d database) installArgs(dir string) []string {
	if d.install == "" {
		return append(storageArgs(dir), "--initialize-insecure")
	}
	return append(storageArgs(dir),
		"--auth-root-authentication-method=normal",
		"--skip-test-db",
		"--skip-name-resolve", // no look-up of this machine's name
		"--innodb-log-file-size="+logSize,
	)
}

// logSize is small because making and filling the log is most of the data
// folder's size.
const logSize = "16M"

func storageArgs(dir string) []string {
	args := []string{"--datadir=" + filepath.Join(dir, "data")}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // servers refuse root unless it is asked for
	}
	return args
}

func (d database) args(dir string, port int) []string {
	args := append([]string{"--no-defaults"}, storageArgs(dir)...)
	args = append(args,
		"--bind-address="+host,
		"--port="+strconv.Itoa(port),
		"--socket="+SocketPath(dir),
		"--pid-file="+filepath.Join(dir, "pid"),
		"--init-file="+initFile(dir),
		"--skip-name-resolve",
		"--skip-log-bin",
		"--character-set-server=utf8mb4", // MariaDB alone means latin1
		"--max-connections=500",
		"--innodb-buffer-pool-size=64M",
		// The log is written at each commit and synced once a second: a
		// killed server loses nothing, a machine without power may.
		"--innodb-flush-log-at-trx-commit=2",
	)
	if d.install == "" {
		return append(args, "--mysqlx=OFF") // a second port, on all interfaces
	}
	return append(args, "--innodb-log-file-size="+logSize)
}

func initFile(dir string) string { return filepath.Join(dir, "init.sql") }

// greets reports whether a MySQL server says hello: it speaks first, a packet
// header of four bytes and then its protocol version, or 0xff to refuse.
func greets(c net.Conn) error {
	hello := make([]byte, 5)
	if _, err := io.ReadFull(c, hello); err != nil {
		return err
	}
	if hello[4] == 0xff {
		return errors.New("refused")
	}
	return nil
}
