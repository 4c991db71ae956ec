package natsserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

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
	if u.Scheme == "tls" || u.Scheme == "wss" || o.HubCA != "" {
		to.TLS, to.TLSTimeout, to.TLSConfig = true, tlsTimeout, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	if o.HubCA != "" {
		pem, err := os.ReadFile(o.HubCA)
		if err != nil {
			return nil, fmt.Errorf("natsserver: %w: its authority: %w", ErrHub, err)
		}
		to.TLSConfig.RootCAs = x509.NewCertPool()
		if !to.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("natsserver: %w: %s holds no certificate", ErrHub, o.HubCA)
		}
	}
	return to, nil
}
