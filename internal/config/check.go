package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// check holds every value to its field's tags, and keys to each other, without
// a look at files or the network. A key whose error is known is left out.
func (l *loader) check() {
	for i := range fields {
		if f := &fields[i]; !l.wrong[f.key] && !f.holds(l.field(f)) {
			l.add(f.want(), f.odd(l.field(f), l.v.GetString(f.key)), f.key)
		}
	}
	for _, r := range append(l.c.rules(), l.alone()...) {
		if r.broken && !slices.ContainsFunc(r.keys, func(k string) bool { return l.wrong[k] }) {
			l.add(r.want, r.got, r.keys...)
		}
	}
}

// rule is about several keys. Its error names the first.
type rule struct {
	keys      []string
	broken    bool
	want, got string
}

func (c *Config) rules() []rule {
	return append(append(c.Server.open(c.NATS.URL != ""), c.tlsRules()...), []rule{
		{[]string{"nats.password", "nats.user"}, c.NATS.Password != "" && c.NATS.User == "", "nats.user with it", ""},
		{[]string{"alarms.mqtt_password", "alarms.mqtt_user"}, c.Alarms.MQTTPassword != "" && c.Alarms.MQTTUser == "", "alarms.mqtt_user with it", ""},
		{[]string{"server.dir", "nats.url"}, c.Server.Dir == "" && c.NATS.URL == "", "a directory for the embedded server, or nats.url", "nothing"},
		{[]string{"metrics.listen", "metrics.tls.cert", "metrics.tls.key"}, c.Metrics.Listen != "" && c.Metrics.Users+c.Metrics.TokenFile != "" && c.Metrics.TLS.Cert == "" && !urls.IsLocal(hostOf(c.Metrics.Listen)),
			`metrics.tls.cert and metrics.tls.key with it, because passwords and tokens would go through the network in clear ("eusn-stream config init --secure" makes them), or 127.0.0.1`, shown(c.Metrics.Listen)},
		{[]string{"metrics.listen", "metrics.insecure"}, c.Metrics.Listen != "" && c.Metrics.Users+c.Metrics.TokenFile+c.Metrics.TLS.CA == "" && !c.Metrics.Insecure && !urls.IsLocal(hostOf(c.Metrics.Listen)),
			`metrics.users or metrics.token_file, with metrics.tls.cert and metrics.tls.key, because others than this machine can reach the address ("eusn-stream config init --secure" makes them), or metrics.insecure: true in a network in which you trust everybody, or 127.0.0.1`, shown(c.Metrics.Listen)},
		{[]string{"server.websocket", "server.users"}, c.NATS.URL == "" && c.Server.WebSocket != "" && c.Server.Users == "" && urls.IsLocal(hostOf(c.Server.WebSocket)),
			`server.users with it, because any web page that a browser of this machine shows could use it ("eusn-stream config init --secure" makes users), or nothing`, shown(c.Server.WebSocket)},
		{[]string{"input.job", "job"}, c.Input.Job != "" && c.Input.Job == c.Job, "the name of another job than this one (job), or nothing: the job reads its own input", c.Input.Job},
		{[]string{"input.from", "input.job"}, c.Input.From != Beginning && c.Input.Job == "", "input.job with it, or beginning: a job begins at the beginning of its own input", c.Input.From},
		{[]string{"stage.shards", "stage.partitions"}, c.Stage.Partitions > 0 && c.Stage.Shards > c.Stage.Partitions,
			fmt.Sprintf("at most one for each of the %d partitions (stage.partitions)", c.Stage.Partitions), fmt.Sprint(c.Stage.Shards)},
		{[]string{"stage.forget", "stage.idle"}, c.Stage.Forget > 0 && c.Stage.Forget < c.Stage.Idle,
			fmt.Sprintf("0s, or no less than stage.idle, %v", c.Stage.Idle), c.Stage.Forget.String()},
	}...)
}

// tlsRules want both of a certificate and its key, and at an address to listen on a
// certificate for authorities of clients.
func (c *Config) tlsRules() (all []rule) {
	for _, at := range []struct {
		key     string
		tls     TLS
		listens bool
	}{
		{"nats.tls", c.NATS.TLS, false}, {"server.tls", c.Server.TLS, true}, {"server.hub_tls", c.Server.HubTLS, false}, {"gateway.tls", c.Gateway.TLS, true},
		{"gateway.broker_tls", c.Gateway.BrokerTLS, false}, {"alarms.tls", c.Alarms.TLS, false}, {"metrics.tls", c.Metrics.TLS, true}, {"traces.tls", c.Traces.TLS, false},
	} {
		ca, cert, key := at.key+".ca", at.key+".cert", at.key+".key"
		all = append(all, rule{[]string{cert, key}, (at.tls.Cert == "") != (at.tls.Key == ""), "both of " + cert + " and " + key + ", or none", ""})
		if at.listens {
			all = append(all, rule{[]string{ca, cert}, at.tls.CA != "" && at.tls.Cert == "", cert + " and " + key + " with it", ""})
		}
	}
	return all
}

// open are the rules for addresses of the embedded server that others than this
// machine reach. They say nothing where another server is used.
func (s *Server) open(unused bool) []rule {
	closed := s.TLS.Cert != "" && s.Users != ""
	var rules []rule
	for _, at := range []struct{ key, addr, host string }{
		{"server.listen", s.Listen, s.Listen}, {"server.websocket", s.WebSocket, hostOf(s.WebSocket)},
	} {
		off := unused || at.addr == "" || at.key == "server.listen" && s.Port == 0
		rules = append(rules, rule{[]string{at.key, "server.tls.cert", "server.tls.key", "server.users"}, !off && !closed && !urls.IsLocal(at.host),
			`server.tls.cert, server.tls.key and server.users with it, because others than this machine can reach the address ("eusn-stream config init --secure" makes them), or 127.0.0.1`, shown(at.addr)})
	}
	return rules
}

// hostOf is the host of host:port.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// alone are the rules that of some keys at most one has a value. They name the
// group.
func (l *loader) alone() []rule {
	given := map[string][]string{}
	all := map[string][]string{}
	for i := range fields {
		if f := &fields[i]; f.alone != "" {
			all[f.alone] = append(all[f.alone], f.key)
			if l.field(f).String() != "" {
				given[f.alone] = append(given[f.alone], f.key)
			}
		}
	}
	var rules []rule
	for set, keys := range given {
		rules = append(rules, rule{append([]string{byKey[keys[0]].group()}, keys...), len(keys) > 1,
			"at most one of " + strings.Join(all[set], ", "), strings.Join(keys, " and ")})
	}
	return rules
}

// Warnings are the keys whose passwords go through the network in clear, as far as the
// configuration shows it: to another machine, without TLS. And they are the variables of
// the environment that look like those of keys, and are not.
func (c *Config) Warnings() (all []string) {
	for _, at := range []struct {
		key, url string
		login    bool // next to that in the URL
		tls      bool
		instead  string
	}{
		{"nats.url", c.NATS.URL, c.NATS.Password+c.NATS.Token != "", c.NATS.TLSFirst || c.NATS.TLS != TLS{}, "tls://"},
		{"server.hub", c.Server.Hub, false, c.Server.HubTLS != TLS{}, "tls://"},
		{"alarms.webhook", c.Alarms.Webhook, false, false, "https://"},
		{"alarms.alertmanager", c.Alarms.Alertmanager, false, false, "https://"},
		{"alarms.mqtt", c.Alarms.MQTT, c.Alarms.MQTTPassword != "", false, "ssl:// or wss://"},
		{"gateway.broker", c.Gateway.Broker, c.Gateway.BrokerPassword != "", false, "ssl:// or wss://"},
	} {
		if host, login := urls.FindCleartext(at.url); host != "" && !at.tls && (login || at.login) {
			all = append(all, fmt.Sprintf("%s: the login goes to %s in clear, unless the server insists on TLS: begin the address with %s", at.key, host, at.instead))
		}
	}
	return append(all, misspelt(os.Environ())...)
}

// misspelt are the variables of the environment that set no key, and whose names begin
// with a group of keys or are close to the name of a key.
func misspelt(environment []string) (all []string) {
	known := map[string]bool{}
	for i := range fields {
		known[fields[i].env] = true
	}
	names := slices.Sorted(maps.Keys(known))
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || known[name] {
			continue
		}
		near := slices.MinFunc(names, func(a, b string) int {
			return cmp.Compare(levenshtein.ComputeDistance(name, a), levenshtein.ComputeDistance(name, b))
		})
		group := strings.ToLower(strings.TrimPrefix(name, envPrefix))
		group, _, _ = strings.Cut(group, "_")
		if groups[group] != "" || levenshtein.ComputeDistance(name, near) <= mostTypos {
			all = append(all, fmt.Sprintf("%s sets no key of the configuration: the nearest variable is %s", cut(name), near))
		}
	}
	return all
}

// mostTypos is how many letters a variable may be from that of a key, and be meant for it.
const mostTypos = 2

// Unused are the keys that the file sets and that are in none of the groups, which may be
// single keys, too.
func (c *Config) Unused(groups ...string) (all []string) {
	for _, key := range c.InFile {
		if !slices.ContainsFunc(groups, func(g string) bool { return key == g || strings.HasPrefix(key, g+".") }) {
			all = append(all, key)
		}
	}
	return all
}
