package live

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/line"
	"github.com/eusn-stream/eusn-stream/internal/gateway/mqtt"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
	"github.com/eusn-stream/eusn-stream/internal/gateway/web"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/webguard"
)

// gatewayInputs are the configured inputs.
type gatewayInputs struct {
	c         config.Gateway
	access    gateway.Access
	topics    *gateway.Topics
	guard     *webguard.Guard
	keys      *names.Patterns
	broker    *tls.Config
	sparkplug *sparkplug.Host
	lines     func(unit time.Duration) gateway.Decoder
	decoder   *payloads
	values    gateway.Values // nil: messages have all channels
	in        formats.Input
	schema    codec.Schema
}

// hasInput reports whether a gateway has an input.
func hasInput(g config.Gateway) bool {
	return g.MQTT+g.HTTP+g.TCP+g.UDP+g.Broker+g.OPCUA.URL+g.Modbus.Servers != ""
}

// checkGateway refuses settings that exclude each other.
func checkGateway(c config.Config) error {
	g := c.Gateway
	if !hasInput(g) {
		return errors.New("there is no input: give one of --mqtt-listen, --broker, --http-listen, --tcp-listen, --udp-listen, --opcua and --modbus")
	}
	if err := checkFieldbus(g); err != nil {
		return err
	}
	if f := c.Input.Format; !slices.Contains([]string{string(formats.Auto), string(formats.Arrow)}, f) {
		return fmt.Errorf("input.format is %s, and the gateway publishes Arrow: set input.format: auto for the job, and gateway.format: %s for what devices send", f, f)
	}
	if (g.User == "") != (g.Password == "") {
		return errors.New("gateway.user and gateway.password: give both or neither, the password as EUSN_GATEWAY_PASSWORD")
	}
	return nil
}

// CheckGateway checks the configuration of a gateway with an input.
func CheckGateway(c config.Config) error {
	if !hasInput(c.Gateway) {
		return nil
	}
	_, err := gatewayOptions(c, slog.New(slog.DiscardHandler))
	return err
}

// gatewayOptions checks the configuration of the inputs.
func gatewayOptions(c config.Config, log *slog.Logger) (*gatewayInputs, error) {
	g := c.Gateway
	o := &gatewayInputs{c: g, access: gateway.Access{User: g.User, Password: g.Password, Open: g.Insecure}}
	if err := checkGateway(c); err != nil {
		return nil, err
	}
	if g.TLS.Cert != "" {
		var err error
		if o.access.TLS, err = certs.ServerTLS(g.TLS.Cert, g.TLS.Key, g.TLS.CA, log); err != nil {
			return nil, fmt.Errorf("gateway.tls: %w", err)
		}
	}
	for _, l := range []struct {
		key, addr string
		login     bool
	}{{"gateway.mqtt", g.MQTT, true}, {"gateway.http", g.HTTP, true}, {"gateway.tcp", g.TCP, false}, {"gateway.udp", g.UDP, false}} {
		if l.addr != "" {
			if err := o.access.CheckAddress(l.key, l.addr, l.login); err != nil {
				return nil, err
			}
		}
	}
	if g.Broker != "" {
		if err := mqtt.CheckBroker(g.Broker); err != nil {
			return nil, err
		}
	}
	var err error
	if o.broker, err = certs.ClientTLS(g.BrokerTLS.CA, g.BrokerTLS.Cert, g.BrokerTLS.Key); err != nil {
		return nil, fmt.Errorf("gateway.broker_tls: %w", err)
	}
	if o.guard, err = webguard.New(webguard.Options{Allowed: g.Hosts, Key: "gateway.hosts", Login: g.User != ""}); err != nil {
		return nil, err
	}
	if o.keys, err = names.ParsePatterns(c.Input.Keys); err != nil {
		return nil, fmt.Errorf("input.keys: %w", err)
	}
	o.topics, err = gateway.ParseTopics(g.Topics)
	return o, err
}

// openInputs starts the inputs. If one fails, all are stopped.
func (o *gatewayInputs) openInputs(a *cli.App, g *gateway.Gateway, log *slog.Logger) (closeAll func(), err error) {
	o.access.Log = log
	var closers []func()
	closeAll = func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	start := func(key, addr, what string, listen func() (net.Addr, func(), error)) {
		if addr == "" || err != nil {
			return
		}
		at, end, failed := listen()
		if failed != nil {
			err = fmt.Errorf("gateway.%s %s: %w", key, addr, failed)
			return
		}
		closers = append(closers, end)
		a.Say("%s at %s", what, at)
	}
	start("mqtt", o.c.MQTT, "MQTT broker", func() (net.Addr, func(), error) {
		b, err := mqtt.Listen(g, mqtt.BrokerOptions{Addr: o.c.MQTT, Access: o.access, Topics: o.topics, Sparkplug: o.sparkplug, MaxMessage: int(o.c.MaxMessage), Log: log})
		if err != nil {
			return nil, nil, err
		}
		return b.Addr(), b.Close, nil
	})
	start("http", o.c.HTTP, "HTTP", func() (net.Addr, func(), error) {
		s, err := web.Listen(g, web.Options{Addr: o.c.HTTP, Access: o.access, Topics: o.topics, Guard: o.guard, MaxMessage: int(o.c.MaxMessage), Lines: o.lines, Log: log})
		if err != nil {
			return nil, nil, err
		}
		return s.Addr(), s.Close, nil
	})
	start("tcp", o.c.TCP, "lines over TCP", func() (net.Addr, func(), error) {
		t, err := line.ListenTCP(g, o.c.TCP, gateway.Access{Others: o.access.Others}, log)
		if err != nil {
			return nil, nil, err
		}
		return t.Addr(), t.Close, nil
	})
	start("udp", o.c.UDP, "lines over UDP", func() (net.Addr, func(), error) {
		u, err := line.ListenUDP(g, o.c.UDP, log)
		if err != nil {
			return nil, nil, err
		}
		return u.Addr(), u.Close, nil
	})
	if o.c.Broker != "" && err == nil {
		var c *mqtt.Client
		if c, err = mqtt.Follow(g, mqtt.ClientOptions{URL: o.c.Broker, ID: o.c.BrokerID, User: o.c.BrokerUser, Password: o.c.BrokerPassword, TLS: o.broker, Topics: o.topics, Sparkplug: o.sparkplug, Log: log}); err == nil {
			closers = append(closers, c.Close)
		}
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	return closeAll, nil
}
