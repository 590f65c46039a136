package page

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// The maximum numbers of event streams that may be open at once.
const (
	maxStreams        = 64 // of clients without the token
	maxAddressStreams = 16 // of these clients, from one address
	maxOwnerStreams   = 16 // of clients with the token
)

var (
	errManyStreams = fmt.Errorf("%d streams are open already", maxStreams)
	errAddressFull = fmt.Errorf("%d streams are open already from this address", maxAddressStreams)
	errManyOwners  = fmt.Errorf("%d streams are open already with the token", maxOwnerStreams)
)

// admission limits the streams that are open at once. Clients with the token have their own limit,
// so that other clients cannot keep the owner of a shop out. It is safe for concurrent use.
type admission struct {
	mu        sync.Mutex
	owners    int
	visitors  int
	addresses map[string]int // number of streams by address, of clients without the token
}

// enter admits a stream until leave is called.
func (a *admission) enter(r *http.Request, owner bool) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner {
		if a.owners >= maxOwnerStreams {
			return nil, errManyOwners
		}
		a.owners++
		return a.leaving(func() { a.owners-- }), nil
	}
	from := origin(r)
	switch {
	case a.addresses[from] >= maxAddressStreams:
		return nil, errAddressFull
	case a.visitors >= maxStreams:
		return nil, errManyStreams
	}
	if a.addresses == nil {
		a.addresses = make(map[string]int)
	}
	a.visitors++
	a.addresses[from]++
	return a.leaving(func() {
		a.visitors--
		if a.addresses[from]--; a.addresses[from] == 0 {
			delete(a.addresses, from)
		}
	}), nil
}

func (a *admission) leaving(leave func()) func() {
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		leave()
	})
}

// origin returns the address that a request comes from, or for IPv6 its /64 network, because one
// client can use all addresses of such a network. The headers of a proxy are not trusted.
func origin(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
