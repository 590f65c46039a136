// Package coordination opens the servers that the flags -etcd and -zookeeper name.
//
// Opening takes two steps, because one process may start a server that other processes
// use. ServeEtcd and ServeZooKeeper turn the value of a flag into addresses, and start
// a server if the value asks for one. DialEtcd and DialZooKeeper connect to such
// addresses from any process on the machine.
package coordination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

const (
	host = "127.0.0.1" // the only address on which private servers listen

	// dialTimeout limits DialEtcd and DialZooKeeper.
	dialTimeout = 3 * time.Second

	// startTimeout limits the start of one server.
	startTimeout = 30 * time.Second
)

// Server is an etcd or a ZooKeeper to dial: one that this package started, or the user's own.
type Server struct {
	Addresses []string // for DialEtcd or DialZooKeeper, in any process on this machine

	server *local.Server // nil if the server is the user's own
	name   string
}

// start runs a server and returns it. The address of the server begins with the scheme.
func start(ctx context.Context, scheme string, c local.Command) (*Server, error) {
	server, err := local.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Server{[]string{scheme + server.Addr}, server, c.Name}, nil
}

// Err returns an error if this package started the server and the server has ended by itself.
func (s *Server) Err() error {
	if s.server == nil || s.server.Pid() != 0 {
		return nil
	}
	return errors.New(s.name + ": the private server has ended")
}

// Close stops the server, unless it is the user's own. It may be called more than once.
func (s *Server) Close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// etcdEndpoints checks the addresses of the user's own etcd and returns them.
func etcdEndpoints(spec string) ([]string, error) {
	endpoints := strings.Split(spec, ",")
	for i, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
			u.RawQuery != "" || !isHostPort(u.Host) {
			return nil, fmt.Errorf("%w of -etcd, address %d%s: %s "+
				"(allowed: local, http://HOST:PORT[,http://HOST:PORT…])",
				backend.ErrSpec, i+1, shown(endpoint), etcdFault(endpoint))
		}
		endpoints[i] = "http://" + u.Host
	}
	return endpoints, nil
}

// etcdFault returns why an etcd address is invalid.
func etcdFault(endpoint string) string {
	switch {
	case endpoint == "":
		return "it is empty"
	case endpoint == "embedded":
		return "no etcd is embedded any more; local starts a private one"
	case endpoint == "local":
		return "it must be the only address"
	case strings.HasPrefix(endpoint, "https:"):
		return "TLS is not supported for etcd"
	case strings.Contains(endpoint, "@"):
		return "a user and a password are not supported for etcd"
	case isHostPort(endpoint):
		return "http:// is missing before it"
	case !strings.HasPrefix(endpoint, "http://"):
		return "it does not begin with http://"
	}
	return "it is not http://, a host and a port, and nothing else"
}

// zkServers checks the addresses of the user's own ZooKeeper and returns them.
func zkServers(spec string) ([]string, error) {
	servers := strings.Split(spec, ",")
	for i, server := range servers {
		if !isHostPort(server) {
			return nil, fmt.Errorf("%w of -zookeeper, address %d%s: %s (allowed: local, HOST:PORT[,HOST:PORT…])",
				backend.ErrSpec, i+1, shown(server), zkFault(server))
		}
	}
	return servers, nil
}

// zkFault returns why a ZooKeeper address is invalid.
func zkFault(server string) string {
	switch {
	case server == "":
		return "it is empty"
	case server == "embedded":
		return "there is no embedded ZooKeeper, because it runs on Java"
	case server == "local":
		return "it must be the only address"
	case strings.Contains(server, "://"):
		return "it has no scheme before the host"
	}
	return "it is not a host and a port, and nothing else"
}

// shown formats an address for an error. It returns "" if the address may contain a password.
func shown(address string) string {
	if address == "" || strings.ContainsAny(address, "@?") {
		return ""
	}
	return " " + strconv.Quote(address)
}

// isHostPort reports whether s is a host and a port, and nothing else.
func isHostPort(s string) bool {
	name, port, err := net.SplitHostPort(s)
	if err != nil || name == "" || strings.ContainsAny(name, "/@ \t\n") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
