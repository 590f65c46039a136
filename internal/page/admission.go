package page

import (
	"net/http"
	"net/netip"
	"sync"

	"oversell/internal/message"
)

// The maximum numbers of event streams that may be open at once.
const (
	maxStreams        = 64 // of clients without the token
	maxAddressStreams = 16 // of these clients, from one address
	maxOwnerStreams   = 16 // of clients with the token
)

var (
	errManyStreams = message.Errorf("%d streams are open already", maxStreams)
	errAddressFull = message.Errorf("%d streams are open already from this address", maxAddressStreams)
	errManyOwners  = message.Errorf("%d streams are open already with the token", maxOwnerStreams)
)

// admission limits the streams that are open at once. Clients with the token have their own limit,
// so that other clients cannot keep the owner of a shop out. It is safe for concurrent use.
type admission struct {
	mu       sync.Mutex
	streams  map[string]int // number of streams by address, or by "" for clients with the token
	visitors int            // number of streams of clients without the token
}

// enter admits a stream until leave is called, once.
func (a *admission) enter(r *http.Request, owner bool) (leave func(), err error) {
	from, most, full, visitor := origin(r), maxAddressStreams, errAddressFull, 1
	if owner {
		from, most, full, visitor = "", maxOwnerStreams, errManyOwners, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.streams[from] >= most:
		return nil, full
	case a.visitors+visitor > maxStreams:
		return nil, errManyStreams
	}
	if a.streams == nil {
		a.streams = make(map[string]int)
	}
	a.streams[from]++
	a.visitors += visitor
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.visitors -= visitor
		if a.streams[from]--; a.streams[from] == 0 {
			delete(a.streams, from)
		}
	}, nil
}

// origin returns the address that a request comes from, or for IPv6 its /64 network, because one
// client can use all addresses of such a network. The headers of a proxy are not trusted.
func origin(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.WithZone("").Prefix(64) // every IPv6 address has 64 bits
	return network.String()
}
