package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// ErrHub is the error for options of a centre that cannot be used.
var ErrHub = errors.New("the centre's address cannot be used")

// hub is how this server reaches the centre; nil where there is none. The server tries
// again and again while the centre is away, and works without it.
func (o *Options) hub() (*server.RemoteLeafOpts, error) {
	if o.Hub == "" {
		return nil, nil
	}
	u, err := urls.Parse(o.Hub, "nats", "tls", "ws", "wss")
	if err != nil {
		return nil, fmt.Errorf("natsserver: %w: want a URL such as tls://hub.example:7422", ErrHub) // not the URL: it may hold a password
	}
	if o.Domain == "" {
		return nil, fmt.Errorf("natsserver: %w without a JetStream domain of this server", ErrHub)
	}
	to := &server.RemoteLeafOpts{URLs: []*url.URL{u}}
	if u.Scheme == "tls" || u.Scheme == "wss" || o.HubTLS != nil {
		to.TLS, to.TLSTimeout, to.TLSConfig = true, tlsTimeout, &tls.Config{MinVersion: tls.VersionTLS12}
		if o.HubTLS != nil {
			to.TLSConfig = o.HubTLS.Clone()
		}
		to.TLSConfig.ServerName = u.Hostname()
	}
	return to, nil
}
