package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/opcua"
)

// mostVariables is the largest number of variables of a subscription.
const mostVariables = 10_000

// observeVariables finds machines in the address space of an OPC UA server, and collects their
// samples until ctx ends. The collector's goroutine makes the calls.
func (c *collector) observeVariables(ctx context.Context, calls chan<- func()) error {
	call := func(f func()) {
		select {
		case calls <- f:
		case <-ctx.Done():
		}
	}
	log := c.w.app.Logger(c.base.Log.Level, c.base.Log.Format)
	o, err := live.OPCUAOptions(c.w.opcuaSettings(c.base.Gateway), nil, log)
	if err != nil {
		return err
	}
	var object []string
	if c.w.at.filter != "" {
		object = strings.Split(c.w.at.filter, "/")
	}
	space, err := opcua.Browse(ctx, o, object)
	if err != nil {
		return cli.Fail(cli.ExitUnreachable, err, "docs/fieldbus.md; settings as environment variables such as EUSN_GATEWAY_OPCUA_USER")
	}
	variables := make([]discover.Variable, len(space.Variables))
	for i, v := range space.Variables {
		variables[i] = discover.Variable(v)
	}
	layout := discover.FindVariables(variables)
	chosen := make(chan error, 1)
	call(func() { chosen <- c.chooseObjects(layout, space) })
	select {
	case err = <-chosen:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if o, err = live.OPCUAOptions(c.conf.Gateway, c.chosen.Channels, log); err != nil {
		return err
	}
	o.Period = c.base.Gateway.Period
	err = opcua.Observe(ctx, o, min(findTime, c.w.o.learn/4),
		func(period time.Duration) { call(func() { c.startSamples(period) }) },
		func(parts []gateway.Part) { call(func() { c.takeParts(parts) }) })
	return cli.Fail(cli.ExitUnreachable, err, "docs/fieldbus.md")
}

// chooseObjects chooses the machines of an address space.
func (c *collector) chooseObjects(l discover.Layout, space *opcua.Space) error {
	c.w.out.say("browsed %d nodes, %d variables", space.Nodes, len(space.Variables))
	if space.Ended != "" {
		c.w.out.say("warning: the browsing has ended at %s, and machines may be missing: add the names of an object to the URL, such as %s#Plant/Line1", space.Ended, c.w.at.server)
	}
	if len(l.Kinds) == 0 {
		text := "no objects with numbers"
		if len(l.Other) > 0 {
			text += fmt.Sprintf(": %d variables without numbers, such as %s (%s)", len(l.Other), l.Other[0].Topic, l.Other[0].Why)
		}
		return cli.Fail(cli.ExitFailure, errors.New(text), "another server or object, or a login with more rights (EUSN_GATEWAY_OPCUA_USER)")
	}
	k, err := c.chooseKind(l)
	if err != nil {
		return err
	}
	if n := len(k.Machines) * len(k.Channels); n > mostVariables {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("the kind has %d variables, at most %d are supported", n, mostVariables), fmt.Sprintf("the names of an object in the URL, such as %s#Plant/Line1", c.w.at.server))
	}
	c.text = c.w.configText(c.base.Gateway, k, k.Channels)
	if c.conf, err = config.Load("", []byte(c.text), nil, nil); err != nil {
		return fmt.Errorf("the configuration of the machines: %w", err)
	}
	c.conf.Gateway = c.w.opcuaSettings(c.conf.Gateway)
	c.chosen = k
	c.reported = time.Now()
	return nil
}

// startSamples begins to collect samples of a period.
func (c *collector) startSamples(period time.Duration) {
	c.chosen.Period = period
	if s := c.conf.Gateway.OPCUA.Sampling; c.base.Gateway.Period == 0 && 2*period < 3*s {
		c.w.out.say("the variables change about as often as the server samples them (%v); if they change more often, set EUSN_GATEWAY_OPCUA_SAMPLING=10ms", s)
	}
	c.w.out.say("a sample every %v (gateway.period; set EUSN_GATEWAY_PERIOD for another time)", period)
	c.w.out.event("period", map[string]any{"period": period.Seconds()})
	c.kind, c.samples = c.chosen, discover.NewSamples(c.chosen.Channels)
	c.reported = time.Now()
}

// takeParts takes samples.
func (c *collector) takeParts(parts []gateway.Part) {
	for _, p := range parts {
		if len(p.Times) > 0 && c.samples.Count*len(c.samples.Channels) < mostValues {
			c.samples.Add(p.Key, p.X, p.Times, p.Times[len(p.Times)-1])
		}
	}
}

// opcuaSettings returns the settings with the login of the address, and with a queue for twice the
// values of a publishing interval.
func (w *watcher) opcuaSettings(g config.Gateway) config.Gateway {
	g.OPCUA.URL = w.at.server
	perMessage := 500 // if the server reports each change
	if g.OPCUA.Sampling > 0 {
		perMessage = int(min(g.OPCUA.Publishing/g.OPCUA.Sampling, 50_000))
	}
	g.OPCUA.Queue = max(g.OPCUA.Queue, 2*perMessage)
	if w.at.user != "" {
		g.OPCUA.User, g.OPCUA.Password = w.at.user, w.at.password
	}
	return g
}

// opcuaText is the part of a configuration for variables of an OPC UA server.
func (w *watcher) opcuaText(base config.Gateway, k *discover.Kind, channels []string) string {
	var b strings.Builder
	g := w.opcuaSettings(base)
	o := g.OPCUA
	fmt.Fprintf(&b, "gateway:\n  period: %v\n  outbox: outbox\n  opcua:\n    url: %q\n", k.Period, o.URL)
	for _, s := range []struct{ key, value, standard string }{
		{"security", o.Security, "auto"}, {"cert", absolute(o.Cert), ""}, {"key", absolute(o.Key), ""}, {"trust", absolute(o.Trust), ""}, {"login", o.Login, "auto"}, {"user", o.User, ""},
	} {
		if s.value != s.standard {
			fmt.Fprintf(&b, "    %s: %q\n", s.key, s.value)
		}
	}
	fmt.Fprintf(&b, "    sampling: %v\n    publishing: %v\n    queue: %d\n    nodes:\n", o.Sampling, o.Publishing, o.Queue)
	for _, machine := range slices.Sorted(slices.Values(k.Machines)) {
		for _, channel := range channels {
			fmt.Fprintf(&b, "      %q: %q\n", machine+"/"+channel, k.Nodes[machine][channel])
		}
	}
	return b.String()
}

// absolute returns a path that is valid in each folder; an empty path stays empty.
func absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path
}
