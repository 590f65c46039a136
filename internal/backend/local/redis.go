package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// maxClients leaves room for several processes with thousands of connections
// each. redis-server lowers it by itself to what the limit on open files
// allows.
const maxClients = 20_000

// StartRedis runs a private redis-server that keeps nothing on disk. More
// arguments go to its command line, after the project's own.
//
// The error wraps ErrMissing when there is no redis-server.
func StartRedis(ctx context.Context, args ...string) (*Server, error) {
	path, err := RedisPath()
	if err != nil {
		return nil, err
	}
	return Start(ctx, Command{
		Name: "redis-server",
		Path: path,
		Args: func(dir string, port int) []string {
			return append(redisArgs(dir, port), args...)
		},
		Ready:   AnswersPing,
		Timeout: 10 * time.Second,
	})
}

// RedisPath finds redis-server. The error wraps ErrMissing.
func RedisPath() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redis-server %w: install it with `apt-get install redis-server` or `brew install redis`", ErrMissing)
	}
	return path, nil
}

func redisArgs(dir string, port int) []string {
	return []string{
		"--bind", host,
		"--port", strconv.Itoa(port),
		"--unixsocket", SocketPath(dir),
		"--dir", dir,
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--maxclients", strconv.Itoa(maxClients),
	}
}

// AnswersPing is the Ready of servers that speak the Redis protocol. A server
// that wants a password first is ready as well.
func AnswersPing(c net.Conn) error {
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	reply := make([]byte, len("+PONG"))
	if _, err := io.ReadFull(c, reply); err != nil {
		return err
	}
	switch string(reply) {
	case "+PONG", "-NOAU":
		return nil
	}
	return errors.New("no PONG")
}
