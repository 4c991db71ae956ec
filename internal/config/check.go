package config

import (
	"fmt"
	"slices"
	"strings"
)

// check holds every value to its field's tags, and keys to each other, without
// a look at files or the network. A key whose error is known is left out.
func (l *loader) check() {
	for i := range fields {
		if f := &fields[i]; !l.wrong[f.key] && !f.holds(l.field(f)) {
			l.add(f.want(), shown(l.v.GetString(f.key)), f.key)
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
	return []rule{
		{[]string{"nats.password", "nats.user"}, c.NATS.Password != "" && c.NATS.User == "", "nats.user with it", ""},
		{[]string{"nats.tls_cert", "nats.tls_key"}, (c.NATS.TLSCert == "") != (c.NATS.TLSKey == ""), "both of nats.tls_cert and nats.tls_key, or none", ""},
		{[]string{"server.dir", "nats.url"}, c.Server.Dir == "" && c.NATS.URL == "", "a directory for the embedded server, or nats.url", "nothing"},
		{[]string{"stage.shards", "stage.partitions"}, c.Stage.Partitions > 0 && c.Stage.Shards > c.Stage.Partitions,
			fmt.Sprintf("at most one for each of the %d partitions (stage.partitions)", c.Stage.Partitions), fmt.Sprint(c.Stage.Shards)},
		{[]string{"stage.forget", "stage.idle"}, c.Stage.Forget > 0 && c.Stage.Forget < c.Stage.Idle,
			fmt.Sprintf("0s, or no less than stage.idle, %v", c.Stage.Idle), c.Stage.Forget.String()},
	}
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
		group, _, _ := strings.Cut(keys[0], ".")
		rules = append(rules, rule{append([]string{group}, keys...), len(keys) > 1,
			"at most one of " + strings.Join(all[set], ", "), strings.Join(keys, " and ")})
	}
	return rules
}
