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

// checkValues validates each value by its field's tags, and keys against each other, without access
// to files or the network. Keys with a known error are skipped.
func (l *loader) checkValues() {
	for i := range fields {
		if f := &fields[i]; !l.failed[f.key] && !f.accepts(l.fieldValue(f)) {
			l.addError(f.want(), f.describeInvalid(l.fieldValue(f), l.viper.GetString(f.key)), f.key)
		}
	}
	for _, r := range append(l.config.rules(), l.exclusiveRules()...) {
		if r.broken && !slices.ContainsFunc(r.keys, func(k string) bool { return l.failed[k] }) {
			l.addError(r.want, r.got, r.keys...)
		}
	}
}

// rule is a rule over several keys. Its error names the first key.
type rule struct {
	keys      []string
	broken    bool
	want, got string
}

func (c *Config) rules() []rule {
	return append(append(c.Server.accessRules(c.NATS.URL != ""), c.tlsRules()...), []rule{
		{[]string{"nats.password", "nats.user"}, c.NATS.Password != "" && c.NATS.User == "", "nats.user with it", ""},
		{[]string{"alarms.mqtt_password", "alarms.mqtt_user"}, c.Alarms.MQTTPassword != "" && c.Alarms.MQTTUser == "", "alarms.mqtt_user with it", ""},
		{[]string{"server.dir", "nats.url"}, c.Server.Dir == "" && c.NATS.URL == "", "a directory for the embedded server, or nats.url", "nothing"},
		{[]string{"metrics.listen", "metrics.tls.cert", "metrics.tls.key"}, c.Metrics.Listen != "" && c.Metrics.Users+c.Metrics.TokenFile != "" && c.Metrics.TLS.Cert == "" && !urls.IsLocal(hostOf(c.Metrics.Listen)),
			`metrics.tls.cert and metrics.tls.key with it, because passwords and tokens would be sent in clear text ("eusn-stream secure init" makes them), or 127.0.0.1`, shown(c.Metrics.Listen)},
		{[]string{"metrics.listen", "metrics.insecure"}, c.Metrics.Listen != "" && c.Metrics.Users+c.Metrics.TokenFile+c.Metrics.TLS.CA == "" && !c.Metrics.Insecure && !urls.IsLocal(hostOf(c.Metrics.Listen)),
			`metrics.users or metrics.token_file, with metrics.tls.cert and metrics.tls.key, because other machines can reach the address ("eusn-stream secure init" makes them), or metrics.insecure: true in a network where you trust all users, or 127.0.0.1`, shown(c.Metrics.Listen)},
		{[]string{"server.websocket", "server.users"}, c.NATS.URL == "" && c.Server.WebSocket != "" && c.Server.Users == "" && urls.IsLocal(hostOf(c.Server.WebSocket)),
			`server.users with it, because any web page in a browser on this machine could use it ("eusn-stream secure init" makes users), or nothing`, shown(c.Server.WebSocket)},
		{[]string{"input.job", "job"}, c.Input.Job != "" && c.Input.Job == c.Job, "the name of another job, or nothing: the job reads its own input", c.Input.Job},
		{[]string{"input.from", "input.job"}, c.Input.From != Beginning && c.Input.Job == "", "input.job with it, or beginning: a job starts at the beginning of its own input", c.Input.From},
		{[]string{"stage.shards", "stage.partitions"}, c.Stage.Partitions > 0 && c.Stage.Shards > c.Stage.Partitions,
			fmt.Sprintf("at most one for each of the %d partitions (stage.partitions)", c.Stage.Partitions), fmt.Sprint(c.Stage.Shards)},
		{[]string{"stage.forget", "stage.idle"}, c.Stage.Forget > 0 && c.Stage.Forget < c.Stage.Idle,
			fmt.Sprintf("0s, or no less than stage.idle, %v", c.Stage.Idle), c.Stage.Forget.String()},
	}...)
}

// tlsRules require both a certificate and its key, or none; at an address to listen on,
// authorities of clients require a certificate.
func (c *Config) tlsRules() (rules []rule) {
	for _, section := range []struct {
		key     string
		tls     TLS
		listens bool
	}{
		{"nats.tls", c.NATS.TLS, false}, {"server.tls", c.Server.TLS, true}, {"server.hub_tls", c.Server.HubTLS, false}, {"gateway.tls", c.Gateway.TLS, true},
		{"gateway.broker_tls", c.Gateway.BrokerTLS, false}, {"alarms.tls", c.Alarms.TLS, false}, {"metrics.tls", c.Metrics.TLS, true}, {"traces.tls", c.Traces.TLS, false},
	} {
		ca, cert, key := section.key+".ca", section.key+".cert", section.key+".key"
		rules = append(rules, rule{[]string{cert, key}, (section.tls.Cert == "") != (section.tls.Key == ""), "both of " + cert + " and " + key + ", or none", ""})
		if section.listens {
			rules = append(rules, rule{[]string{ca, cert}, section.tls.CA != "" && section.tls.Cert == "", cert + " and " + key + " with it", ""})
		}
	}
	return rules
}

// accessRules are the rules for addresses of the embedded server reachable from other machines.
// They never fail if another server is used.
func (s *Server) accessRules(unused bool) []rule {
	closed := s.TLS.Cert != "" && s.Users != ""
	var rules []rule
	for _, web := range []struct{ key, addr, host string }{
		{"server.listen", s.Listen, s.Listen}, {"server.websocket", s.WebSocket, hostOf(s.WebSocket)},
	} {
		unchecked := unused || web.addr == "" || web.key == "server.listen" && s.Port == 0
		rules = append(rules, rule{[]string{web.key, "server.tls.cert", "server.tls.key", "server.users"}, !unchecked && !closed && !urls.IsLocal(web.host),
			`server.tls.cert, server.tls.key and server.users with it, because other machines can reach the address ("eusn-stream secure init" makes them), or 127.0.0.1`, shown(web.addr)})
	}
	return rules
}

// hostOf returns the host of host:port.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// exclusiveRules are the rules for sets of keys in which at most one key may have a value. The
// first key of such a rule is the group.
func (l *loader) exclusiveRules() []rule {
	used := map[string][]string{}
	sets := map[string][]string{}
	for i := range fields {
		if f := &fields[i]; f.exclusive != "" {
			sets[f.exclusive] = append(sets[f.exclusive], f.key)
			if l.fieldValue(f).String() != "" {
				used[f.exclusive] = append(used[f.exclusive], f.key)
			}
		}
	}
	var rules []rule
	for set, keys := range used {
		rules = append(rules, rule{append([]string{byKey[keys[0]].group()}, keys...), len(keys) > 1,
			"at most one of " + strings.Join(sets[set], ", "), strings.Join(keys, " and ")})
	}
	return rules
}

// Warnings lists the keys with a password that is sent in clear text, as far as the
// configuration shows: to another machine, without TLS. It also lists environment variables
// with a name similar to a key's variable.
func (c *Config) Warnings() (warnings []string) {
	for _, target := range []struct {
		key, url string
		login    bool // in addition to a login in the URL
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
		if host, login := urls.FindCleartext(target.url); host != "" && !target.tls && (login || target.login) {
			warnings = append(warnings, fmt.Sprintf("%s: the login is sent to %s in clear text, unless the server requires TLS: use an address with %s", target.key, host, target.instead))
		}
	}
	return append(warnings, similarVariables(os.Environ())...)
}

// similarVariables lists environment variables that set no key, but begin with a group of keys
// or have a name close to a key's variable.
func similarVariables(environment []string) (warnings []string) {
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
		if groups[group] != "" || levenshtein.ComputeDistance(name, near) <= maxTypos {
			warnings = append(warnings, fmt.Sprintf("%s sets no key of the configuration: the nearest variable is %s", cut(name), near))
		}
	}
	return warnings
}

// maxTypos is the maximum edit distance between a variable and the variable of a key.
const maxTypos = 2

// Unused lists the keys in the file outside the given groups. A group may be a single key.
func (c *Config) Unused(groups ...string) (unused []string) {
	for _, key := range c.InFile {
		if !slices.ContainsFunc(groups, func(g string) bool { return key == g || strings.HasPrefix(key, g+".") }) {
			unused = append(unused, key)
		}
	}
	return unused
}
