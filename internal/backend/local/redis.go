package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxClients is high enough for several processes with thousands of connections each.
// redis-server lowers it if the limit on open files is too low.
const maxClients = 20_000

// Redis is a private redis-server, which requires a password.
type Redis struct {
	*Server

	// URL is a value for backend.DialRedis and -redis. It contains the password, so it must never be logged.
	URL string

	client *redis.Client // for the groups of servers in this package; it dials when it is first used
}

// StartRedis runs a private redis-server that keeps nothing on disk and has a random
// password. The args are added to the end of its command line. If they contain
// --requirepass, that password replaces the random one.
//
// The error wraps ErrMissing if redis-server is not installed.
func StartRedis(ctx context.Context, args ...string) (*Redis, error) {
	password := newSecret()
	if i := slices.Index(args, "--requirepass"); i >= 0 && i+1 < len(args) {
		password, args = args[i+1], slices.Delete(slices.Clone(args), i, i+2)
	}
	return startRedis(ctx, password, Command{
		Prepare: func(_ context.Context, dir string, _ int) error { return writeRedisConf(dir, password) },
		Args:    func(dir string, port int) []string { return append(redisArgs(dir, port), args...) },
	})
}

// startRedis runs the command c, of which only what differs between servers is set, as a redis-server.
func startRedis(ctx context.Context, password string, c Command) (*Redis, error) {
	path, err := RedisPath()
	if err != nil {
		return nil, err
	}
	c.Name, c.Path, c.Timeout = "redis-server", path, 10*time.Second
	c.Ready = func(conn net.Conn) error { return AnswersPing(conn, password) }
	server, err := Start(ctx, c)
	if err != nil {
		return nil, err
	}
	at := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: server.Addr}
	return &Redis{server, at.String(), redis.NewClient(clientOptions(server.Addr, password))}, nil
}

// Close is like Server.Close. It does nothing if r is nil.
func (r *Redis) Close() error {
	if r == nil {
		return nil
	}
	_ = r.client.Close() // at the second Close, it is already closed
	return r.Server.Close()
}

// CutOff prevents a replica from receiving the further writes of its primary.
func (r *Redis) CutOff(ctx context.Context) error {
	// It is not enough to kill the connection: the replica would reconnect immediately and receive
	// the missed writes. So the replica first gets a password that its primary refuses.
	if err := r.client.ConfigSet(ctx, "masterauth", "cut").Err(); err != nil {
		return fmt.Errorf("change the replica's password: %w", err)
	}
	return await(ctx, "the replica's connection is killed", func() error {
		killed, err := r.client.ClientKillByFilter(ctx, "TYPE", "master").Result()
		if err == nil && killed == 0 {
			return errors.New("it has none")
		}
		return err
	})
}

// redisConf is the file in a server's folder that contains its password.
const redisConf = "redis.conf"

// writeRedisConf writes a configuration that makes a server require the password. If
// the server is a replica, it also uses the password to log in to its primary.
func writeRedisConf(dir, password string) error {
	quoted := strconv.Quote(password)
	return writeSecret(dir, redisConf, "requirepass "+quoted+"\nmasterauth "+quoted+"\n")
}

// RedisPath returns the path of redis-server. If it is not in the PATH, the error wraps ErrMissing.
func RedisPath() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redis-server %w: install it with `apt-get install redis-server` or `brew install redis`",
			ErrMissing)
	}
	return path, nil
}

// redisArgs returns the arguments for a server whose folder was prepared by writeRedisConf.
func redisArgs(dir string, port int) []string {
	return []string{
		// The file is included, because sentinels would make the server rewrite its main configuration
		// file, with the password that Cut has changed.
		"--include", filepath.Join(dir, redisConf),
		"--bind", host,
		"--port", strconv.Itoa(port),
		"--unixsocket", SocketPath(dir),
		"--unixsocketperm", "700",
		"--dir", dir,
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--maxclients", strconv.Itoa(maxClients),
	}
}

// AnswersPing implements Command.Ready for servers with the Redis protocol. It logs in first, because
// without the password PING gets the same error from a ready server and from a server that is loading
// data.
func AnswersPing(c net.Conn, password string) error {
	options := clientOptions("", password)
	options.Dialer = func(context.Context, string, string) (net.Conn, error) { return c, nil }
	client := redis.NewClient(options)
	defer client.Close()
	return client.Ping(context.Background()).Err()
}
