package local

import (
	"cmp"
	"context"
	"database/sql"
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

	"github.com/go-sql-driver/mysql"
)

// DatabaseName is the shop's database on a private server, and DatabaseUser is the user that owns
// it. adminUser has administrator rights.
const (
	DatabaseName = "oversell"
	DatabaseUser = "oversell"
	adminUser    = "oversell_admin"
)

// Database is a private MariaDB or MySQL. It has two users, each with a random
// password, that can log in only from this machine.
type Database struct {
	*Server

	// URL is a value for backend.DialDatabase and -db. Its user has all rights to the database DatabaseName
	// and no other rights, so SQL can neither read nor write files. The user of AdminURL can create
	// databases, kill other connections, and change global settings. Both contain a password.
	URL, AdminURL string

	admin *mysql.Config // AdminURL, parsed
}

func configOf(user, password, addr string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = user, password, "tcp", addr, DatabaseName
	c.Logger = &mysql.NopLogger{} // every failure is also returned as an error
	return c
}

// Offer creates another database for the user of URL, and returns the database's URL. drop
// removes the database.
func (d *Database) Offer(ctx context.Context, name string) (url string, drop func(context.Context) error, err error) {
	err = d.administer(ctx, "CREATE DATABASE "+name, "GRANT ALL ON "+name+".* TO '"+DatabaseUser+"'@'"+host+"'")
	if err != nil {
		return "", nil, err
	}
	url = strings.TrimSuffix(d.URL, DatabaseName) + name
	return url, func(ctx context.Context) error { return d.administer(ctx, "DROP DATABASE "+name) }, nil
}

// administer runs statements as the administrator.
func (d *Database) administer(ctx context.Context, statements ...string) error {
	connector, err := mysql.NewConnector(d.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", d.command.Name, err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("administer %s: %w", d.command.Name, err)
		}
	}
	return nil
}

// initSQL returns the SQL that the server runs at every start, before the first connection. Each
// statement must be on one line, because servers read init files line by line.
func initSQL(password, adminPassword string) string {
	user, admin := "'"+DatabaseUser+"'@'"+host+"'", "'"+adminUser+"'@'"+host+"'"
	return strings.Join([]string{
		"CREATE DATABASE IF NOT EXISTS " + DatabaseName + ";",
		"CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY '" + password + "';",
		"GRANT ALL ON " + DatabaseName + ".* TO " + user + ";",
		"CREATE USER IF NOT EXISTS " + admin + " IDENTIFIED BY '" + adminPassword + "';",
		"GRANT ALL ON *.* TO " + admin + " WITH GRANT OPTION;",
		"REVOKE FILE ON *.* FROM " + admin + ";",
		// MariaDB creates several root accounts, all without a password. The remaining root account
		// gets a random password that is not kept.
		"DROP USER IF EXISTS 'root'@'" + host + "', 'root'@'::1';",
		"ALTER USER 'root'@'localhost' IDENTIFIED BY '" + newSecret() + "';",
		"",
	}, "\n")
}

// StartDatabase runs a private MariaDB or MySQL server with an empty database DatabaseName. It
// trades durability for speed, because the data is deleted at the end.
//
// The error wraps ErrMissing if no server is installed, or if the installation is incomplete.
func StartDatabase(ctx context.Context) (*Database, error) {
	d, err := findDatabase(ctx)
	if err != nil {
		return nil, err
	}
	d.password, d.adminPassword = newSecret(), newSecret()
	server, err := Start(ctx, Command{
		Name:    d.name,
		Path:    d.server,
		Args:    d.args,
		Prepare: d.prepare,
		Ready:   greets,
		Timeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	user := configOf(DatabaseUser, d.password, server.Addr)
	admin := configOf(adminUser, d.adminPassword, server.Addr)
	return &Database{server, user.FormatDSN(), admin.FormatDSN(), admin}, nil
}

// database is an installed server. A script creates the data folder of MariaDB; MySQL creates its own.
type database struct {
	name    string
	server  string
	install string // path of MariaDB's script; empty for MySQL

	password, adminPassword string
}

// findDatabase looks for MariaDB first, because MariaDB starts in half a second, and MySQL takes
// several seconds. A program named mysqld may be either of the two.
func findDatabase(ctx context.Context) (database, error) {
	server, err := lookPath("mariadbd", "mysqld")
	if err != nil {
		return database{}, fmt.Errorf("mariadbd or mysqld %w (it is often in /usr/sbin): "+
			"install it with `apt-get install mariadb-server` or `brew install mariadb`", ErrMissing)
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
		return database{}, fmt.Errorf("mariadb-install-db %w: "+
			"install it with `apt-get install mariadb-server` or `brew install mariadb`", ErrMissing)
	}
	return database{name: "mariadbd", server: server, install: install}, nil
}

// lookPath returns the path of the first binary in names that is in the PATH.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// isMariaDB reports whether a server binary is MariaDB: on many systems mysqld
// is a link to mariadbd.
func isMariaDB(ctx context.Context, server string) (bool, error) {
	out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		return false, fmt.Errorf("ask %s for its version: %w", server, errors.Join(err, ctx.Err()))
	}
	return strings.Contains(string(out), "MariaDB"), nil
}

// prepare creates the data folder, the folder in which SQL may read and write files, the folder for
// temporary tables, and the file with initSQL.
func (d database) prepare(ctx context.Context, dir string, _ int) error {
	if err := writeSecret(dir, initFile, initSQL(d.password, d.adminPassword)); err != nil {
		return err
	}
	for _, name := range []string{sqlFiles, temporaryFiles} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("make a folder of the server: %w", err)
		}
	}
	log := filepath.Join(dir, "install-log")
	cmd := exec.Command(cmp.Or(d.install, d.server), append([]string{"--no-defaults"}, d.installArgs(dir)...)...)
	p, err := startLogged(cmd, log)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.KillGroup() // the script and its child, the server
		return fmt.Errorf("make the data folder: %w", context.Cause(ctx))
	}
	if state := p.State(); !state.Success() {
		return fmt.Errorf("make the data folder: %s%s", state, lastLines(log))
	}
	return nil
}

func (d database) installArgs(dir string) []string {
	if d.install == "" {
		return append(storageArgs(dir), "--initialize-insecure")
	}
	return append(storageArgs(dir),
		"--auth-root-authentication-method=normal",
		"--skip-test-db",
		"--skip-name-resolve", // do not look up this machine's name
		"--innodb-log-file-size="+logSize,
	)
}

// logSize is small because the log makes up most of the data folder: it is created in full size at the
// start.
const logSize = "16M"

// storageArgs returns the arguments for both the server and the program that creates its data
// folder. Each server has its own folder for temporary tables: a server that starts removes the
// tables in that folder, even if they belong to another running server.
func storageArgs(dir string) []string {
	args := []string{"--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + filepath.Join(dir, temporaryFiles)}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // servers refuse to run as root without this
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
		"--init-file="+filepath.Join(dir, initFile),
		"--secure-file-priv="+filepath.Join(dir, sqlFiles),
		"--local-infile=OFF",
		"--loose-skip-symbolic-links", // MySQL 9 has no such option
		"--skip-name-resolve",
		"--skip-log-bin",
		"--character-set-server=utf8mb4", // only MariaDB defaults to latin1
		"--max-connections=500",
		"--innodb-buffer-pool-size=64M",
		// The log is written at each commit and synced once a second: a killed server loses
		// nothing, but a power failure may lose commits.
		"--innodb-flush-log-at-trx-commit=2",
	)
	if d.install == "" {
		return append(args, "--mysqlx=OFF") // the X plugin would open a second port, on all interfaces
	}
	return append(args, "--innodb-log-file-size="+logSize)
}

// These names are in a server's folder: the file that creates its users, the only folder in which
// SQL may read and write files, and the folder for temporary tables.
const (
	initFile       = "init.sql"
	sqlFiles       = "files"
	temporaryFiles = "tmp"
)

// greets returns an error unless a MySQL server is ready. The server sends the first packet: a
// header of four bytes and then its protocol version, or 0xff if it refuses the connection.
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
