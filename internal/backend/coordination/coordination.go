// Package coordination opens what the flags -etcd and -zookeeper name.
//
// It takes two steps, because one process may start a server and others use
// it: ServeEtcd and ServeZooKeeper turn a flag's value into addresses, starting
// a server when the value asks for one; DialEtcd and DialZooKeeper connect to
// such addresses from any process of the machine.
package coordination

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oversell/internal/backend/local"
)

var (
	// ErrSpec is returned, wrapped, when the value of -etcd or -zookeeper is
	// itself wrong. The message is one line and says what is allowed.
	ErrSpec = errors.New("invalid value")

	// ErrMissing is returned, wrapped, when "local" needs what is not
	// installed. The message names it and how to install it.
	ErrMissing = local.ErrMissing

	// ErrUnreachable is returned, wrapped with its cause, when nobody answers
	// at a well-formed address.
	ErrUnreachable = errors.New("unreachable")
)

const (
	host = "127.0.0.1" // the only address that servers started here listen on

	// dialTimeout bounds DialEtcd and DialZooKeeper.
	dialTimeout = 3 * time.Second

	// startTimeout bounds the start of one server.
	startTimeout = 30 * time.Second
)

const (
	etcdForms = "allowed: embedded, http://HOST:PORT[,http://HOST:PORT…]"
	zkForms   = "allowed: local, HOST:PORT[,HOST:PORT…]"
)

// etcdEndpoints checks a list of the user's own etcd addresses. It does not
// repeat one that is wrong: it may hold a password.
func etcdEndpoints(spec string) ([]string, error) {
	endpoints := strings.Split(spec, ",")
	for i, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || !isHostPort(u.Host) {
			return nil, fmt.Errorf("%w of -etcd, address %d (%s)", ErrSpec, i+1, etcdForms)
		}
		endpoints[i] = "http://" + u.Host
	}
	return endpoints, nil
}

// zkServers checks a list of the user's own ZooKeeper addresses.
func zkServers(spec string) ([]string, error) {
	servers := strings.Split(spec, ",")
	for i, server := range servers {
		if !isHostPort(server) {
			return nil, fmt.Errorf("%w of -zookeeper, address %d (%s)", ErrSpec, i+1, zkForms)
		}
	}
	return servers, nil
}

// isHostPort reports whether s names a host and a port, and nothing else.
func isHostPort(s string) bool {
	name, port, err := net.SplitHostPort(s)
	if err != nil || name == "" || strings.ContainsAny(name, "/@ \t\n") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
