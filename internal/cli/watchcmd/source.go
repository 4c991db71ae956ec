package watchcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/gateway/mqtt"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// Schemes of places.
const (
	schemeMQTT   = "mqtt"
	schemeNATS   = "nats"
	schemeOPCUA  = "opcua"
	schemeTables = "tables"
)

// place is where the samples are.
type place struct {
	scheme         string
	server         string // URL without login, and without a path that is the filter
	filter         string // MQTT filter, NATS subject, or names of objects of OPC UA
	user, password string
	path           string // of tables
}

// parsePlace reads an address.
func parsePlace(text string) (p place, err error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		if found, err := filepath.Glob(text); err != nil || len(found) == 0 {
			return p, fmt.Errorf("%s: no such folder, file or pattern, and no URL such as mqtt://host:1883/#", text)
		}
		return place{scheme: schemeTables, path: text}, nil
	}
	if scheme == "opc.tcp" {
		return parseOPCUA(text)
	}
	schemes := []string{"mqtt", "tcp", "mqtts", "ssl", "tls", "ws", "wss", "nats"}
	host, filter, _ := strings.Cut(rest, "/")
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || u.Host == "" || !slices.Contains(schemes, scheme) {
		return p, errors.New("want a folder, a pattern of tables, or a URL such as mqtt://host:1883/#, mqtts://host:8883/plant/#, nats://host:4222/plant.* or opc.tcp://host:4840")
	}
	p = place{scheme: schemeMQTT, filter: filter, user: u.User.Username()}
	p.password, _ = u.User.Password()
	u.User = nil
	if scheme == "nats" {
		p.scheme = schemeNATS
		if !strings.ContainsAny(filter, "*>") {
			return p, fmt.Errorf("the subject %q: want * or > for the name of the machine, such as nats://host:4222/plant.*", filter)
		}
	} else if filter == "" {
		p.filter = "#"
	}
	if u.Port() == "" {
		u.Host += map[string]string{"mqtt": ":1883", "tcp": ":1883", "ws": ":80", "wss": ":443", "nats": ":4222"}[scheme]
		if u.Port() == "" {
			u.Host += ":8883"
		}
	}
	if scheme == "mqtt" {
		u.Scheme = "tcp"
	}
	if scheme == "mqtts" {
		u.Scheme = "ssl"
	}
	p.server = u.String()
	return p, nil
}

// parseOPCUA reads the address of an OPC UA server. A fragment has the names of an object.
func parseOPCUA(text string) (p place, err error) {
	u, err := urls.Parse(text, "opc.tcp")
	if err != nil {
		return p, err
	}
	p = place{scheme: schemeOPCUA, filter: strings.Trim(strings.TrimPrefix(u.Fragment+"/", "Objects/"), "/"), user: u.User.Username()}
	p.password, _ = u.User.Password()
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.Port() == "" {
		u.Host += ":4840"
	}
	p.server = u.String()
	return p, nil
}

var notInFolder = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// folder is the default folder of the configuration.
func (p place) folder() string {
	name := p.path
	if p.scheme != schemeTables {
		u, _ := url.Parse(p.server)
		name = u.Hostname() + "-" + p.filter
	} else {
		name = archives.NameRecording(name)
	}
	return "watch-" + strings.Trim(notInFolder.ReplaceAllString(name, "-"), "-.")
}

// newID returns a random client id.
func newID() string {
	b := make([]byte, 4)
	rand.Read(b)
	return "eusn-watch-" + hex.EncodeToString(b)
}

// observe gives the messages of the place to take until ctx ends.
func (p place) observe(ctx context.Context, a *cli.App, base config.Config, take func(discover.Message)) error {
	if p.scheme == schemeNATS {
		return p.observeNATS(ctx, a, base, take)
	}
	t, err := certs.ClientTLS(base.Gateway.BrokerTLS.CA, base.Gateway.BrokerTLS.Cert, base.Gateway.BrokerTLS.Key)
	if err != nil {
		return cli.Fail(cli.ExitConfig, err, "EUSN_GATEWAY_BROKER_TLS_CA with the file of a certificate")
	}
	user, password := p.completeLogin(base.Gateway.BrokerUser, base.Gateway.BrokerPassword)
	err = mqtt.Observe(ctx, mqtt.ObserveOptions{URL: p.server, ID: newID(), User: user, Password: password, TLS: t, Filter: p.filter},
		func(topic string, payload []byte, at time.Time) {
			take(discover.Message{Topic: topic, Payload: payload, At: at})
		})
	return cli.Fail(cli.ExitUnreachable, err, "the address of a broker that runs; a login as mqtt://user:password@host:1883/#")
}

// completeLogin returns the login of the address, or the login of the environment if it has none.
func (p place) completeLogin(user, password string) (string, string) {
	return cmp.Or(p.user, user), cmp.Or(p.password, password)
}

func (p place) observeNATS(ctx context.Context, a *cli.App, base config.Config, take func(discover.Message)) error {
	base.NATS.URL = p.server
	base.NATS.User, base.NATS.Password = p.completeLogin(base.NATS.User, base.NATS.Password)
	nc, err := natsclient.Connect(ctx, server.NATSOptions(base.NATS, "eusn-stream/watch", a.Logger(base.Log.Level, base.Log.Format)))
	if err != nil {
		return cli.Fail(cli.ExitUnreachable, err, server.ConnectHint(err, "the address of a NATS server that runs"))
	}
	defer nc.Close()
	_, err = nc.Subscribe(p.filter, func(m *nats.Msg) {
		take(discover.Message{Topic: strings.ReplaceAll(m.Subject, ".", "/"), Payload: m.Data, At: time.Now()})
	})
	if err != nil {
		return cli.Fail(cli.ExitUnreachable, err, "a subject that this login may read")
	}
	<-ctx.Done()
	return nil
}

// isSaved reports whether a folder has a configuration of watch.
func isSaved(dir string) bool {
	for _, name := range []string{configName, modelName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
