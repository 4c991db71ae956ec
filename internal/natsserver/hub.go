package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// ErrHub is the error for invalid options of a central server.
var ErrHub = errors.New("the address of the central server is invalid")

// hubRemote returns the connection to the central server; nil without one. The server
// reconnects in the background and works without the central server.
func (o *Options) hubRemote() (*server.RemoteLeafOpts, error) {
	if o.Hub == "" {
		return nil, nil
	}
	u, err := urls.Parse(o.Hub, "nats", "tls", "ws", "wss")
	if err != nil {
		return nil, fmt.Errorf("natsserver: %w: want a URL such as tls://hub.example:7422", ErrHub) // not the URL, which may contain a password
	}
	if o.Domain == "" {
		return nil, fmt.Errorf("natsserver: %w without a JetStream domain of this server", ErrHub)
	}
	remote := &server.RemoteLeafOpts{URLs: []*url.URL{u}}
	if u.Scheme == "tls" || u.Scheme == "wss" || o.HubTLS != nil {
		remote.TLS, remote.TLSTimeout, remote.TLSConfig = true, tlsTimeout, &tls.Config{MinVersion: tls.VersionTLS12}
		if o.HubTLS != nil {
			remote.TLSConfig = o.HubTLS.Clone()
		}
		remote.TLSConfig.ServerName = u.Hostname()
	}
	return remote, nil
}
