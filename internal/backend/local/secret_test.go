package local_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// A private Redis refuses clients without its password, also after a restart.
func TestPrivateRedisLetsNobodyInWithoutItsPassword(t *testing.T) {
	t.Parallel()
	server := backendtest.RestartableRedis(t)
	letsNoStrangerIn(t, server.Addr)
	backendtest.Must(t, server.Restart(t.Context()))
	letsNoStrangerIn(t, server.Addr)
	backendtest.DialRedis(t, server.URL)
}

// open connects to a private database until the end of the test.
func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	backendtest.Must(t, err)
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	backendtest.Must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// These checks share one server, because starting a server takes longer than all of them.
func TestPrivateDatabase(t *testing.T) {
	server := backendtest.RestartableDatabase(t)
	for _, part := range []struct {
		name string
		test func(t *testing.T, server *local.Database)
	}{
		{"lets nobody in without its password", letsNobodyIn},
		{"touches no files", touchesNoFiles},
		{"shares no temporary tables with other servers", sharesNoTemporaryTables},
		{"gives its user one database alone", givesOneDatabase},
		{"shows no password in the list of processes", showsNoPassword},
		{"has what it acknowledged after it was killed", hasWhatItAcknowledged},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, server) })
	}
}

func letsNobodyIn(t *testing.T, server *local.Database) {
	right, err := mysql.ParseDSN(server.URL)
	backendtest.Must(t, err)
	if right.Passwd == "" {
		t.Error("the user has no password")
	}
	socket := local.SocketPath(serverFolder(t, server))
	for _, user := range []string{right.User, "oversell_admin", "root", "", "mysql"} {
		for _, password := range []string{"", "wrong", user} {
			for network, addr := range map[string]string{"tcp": server.Addr, "unix": socket} {
				c := right.Clone()
				c.User, c.Passwd, c.Net, c.Addr, c.DBName = user, password, network, addr, ""
				if err := open(t, c.FormatDSN()).PingContext(t.Context()); err == nil {
					t.Errorf("%q with the password %q is let in by %s", user, password, network)
				}
			}
		}
	}
	for name, dsn := range map[string]string{"the user": server.URL, "the administrator": server.AdminURL} {
		if err := open(t, dsn).PingContext(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// serverFolder returns the folder in which a database server keeps its files.
func serverFolder(t *testing.T, server *local.Database) string {
	t.Helper()
	var dir string
	backendtest.Must(t, open(t, server.URL).QueryRowContext(t.Context(), "SELECT @@datadir").Scan(&dir))
	return filepath.Dir(filepath.Clean(dir))
}

func sharesNoTemporaryTables(t *testing.T, server *local.Database) {
	var dir string
	backendtest.Must(t, open(t, server.URL).QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&dir))
	if want := serverFolder(t, server); filepath.Dir(filepath.Clean(dir)) != want {
		t.Errorf("temporary tables are in %s, want a folder in %s", dir, want)
	}
}

func touchesNoFiles(t *testing.T, server *local.Database) {
	dir := serverFolder(t, server)
	victim, secret := filepath.Join(t.TempDir(), "written"), filepath.Join(t.TempDir(), "secret")
	backendtest.Must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	for name, dsn := range map[string]string{"the user": server.URL, "the administrator": server.AdminURL} {
		db := open(t, dsn)
		for _, path := range []string{victim, filepath.Join(dir, "files", "written")} {
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("SELECT 'x' INTO OUTFILE '%s'", path)); err == nil {
				t.Errorf("%s writes %s", name, path)
			}
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("SELECT 'x' INTO DUMPFILE '%s'", path)); err == nil {
				t.Errorf("%s dumps %s", name, path)
			}
		}
		var read sql.NullString
		loaded := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT LOAD_FILE('%s')", secret))
		if err := loaded.Scan(&read); err == nil && read.Valid {
			t.Errorf("%s reads a file: %q", name, read.String)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS texts (content TEXT)"); err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"", "LOCAL "} {
			load := fmt.Sprintf("LOAD DATA %sINFILE '%s' INTO TABLE texts", from, secret)
			if _, err := db.ExecContext(t.Context(), load); err == nil {
				t.Errorf("%s loads a file %s", name, from)
			}
		}
		create := "CREATE TABLE elsewhere (a INT) ENGINE=MyISAM DATA DIRECTORY='" + filepath.Dir(victim) + "'"
		if _, err := db.ExecContext(t.Context(), create); err == nil {
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(victim), "*")); len(left) > 0 {
				t.Errorf("%s makes a table outside of the server's folder: %q", name, left)
			}
			_, _ = db.ExecContext(t.Context(), "DROP TABLE elsewhere")
		}
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("the file was written")
	}
}

// givesOneDatabase checks that the shop's user cannot run statements that only an administrator may run.
func givesOneDatabase(t *testing.T, server *local.Database) {
	user, admin := open(t, server.URL), open(t, server.AdminURL)
	var id int64
	backendtest.Must(t, admin.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	for _, statement := range []string{
		"CREATE DATABASE other", "SELECT * FROM mysql.user", "SET GLOBAL read_only = 1", fmt.Sprint("KILL ", id),
		"CREATE USER 'x'@'%'", "GRANT ALL ON *.* TO CURRENT_USER()", "SHUTDOWN",
	} {
		if _, err := user.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("the user may %s", statement)
		}
	}
	backendtest.Must(t, user.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	for _, statement := range []string{
		"CREATE DATABASE other", "DROP DATABASE other",
		"SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", fmt.Sprint("KILL ", id),
	} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Errorf("the administrator may not %s: %v", statement, err)
		}
	}
}

// showsNoPassword checks that no server has a password in its command line, which every user of the
// machine can read.
func showsNoPassword(t *testing.T, server *local.Database) {
	commandLine := func(pid int) string { return fmt.Sprintf("/proc/%d/cmdline", pid) }
	redisServer := backendtest.RestartableRedis(t)
	if _, err := os.Stat(commandLine(redisServer.Pid())); err != nil {
		t.Skip("there is no /proc here")
	}
	user, err := mysql.ParseDSN(server.URL)
	backendtest.Must(t, err)
	admin, err := mysql.ParseDSN(server.AdminURL)
	backendtest.Must(t, err)
	for pid, secrets := range map[int][]string{
		redisServer.Pid(): {backendtest.DialRedis(t, redisServer.URL).(*redis.Client).Options().Password},
		server.Pid():      {user.Passwd, admin.Passwd},
	} {
		line, err := os.ReadFile(commandLine(pid))
		backendtest.Must(t, err)
		for _, secret := range secrets {
			if strings.Contains(string(line), secret) {
				t.Errorf("the password is in %q", line)
			}
		}
	}
}

// hasWhatItAcknowledged checks that an acknowledged commit survives a kill of the server, because
// an order that was confirmed to a buyer must not disappear.
func hasWhatItAcknowledged(t *testing.T, server *local.Database) {
	db := open(t, server.URL)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE rows_of (id INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO rows_of VALUES (?)", n)
			if err != nil {
				break
			}
			if n == 200 {
				go server.Kill()
			}
		}
		acknowledged <- n
	}()
	n := <-acknowledged
	backendtest.Must(t, server.Restart(t.Context()))
	var there int
	row := open(t, server.URL).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM rows_of WHERE id < ?", n)
	backendtest.Must(t, row.Scan(&there))
	if there != n {
		t.Errorf("%d rows of %d that were acknowledged", there, n)
	}
}
