package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/config"
)

// natsContext is a file of the nats command (nats context): how to reach a server. Fields that
// do not change the connection are not read.
type natsContext struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	InboxPrefix string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`

	// Fields without a configuration key.
	NSC       string `json:"nsc"`
	JWT       string `json:"user_jwt"`
	Proxy     string `json:"socks_proxy"`
	Domain    string `json:"jetstream_domain"`
	APIPrefix string `json:"jetstream_api_prefix"`
}

// useContext configures the connection as the selected context of the nats command does, and
// returns the name of the context; empty if none is selected. Configured keys have precedence.
func useContext(c *config.NATS) (name string, err error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil // a service without a home has no context
		}
		dir = filepath.Join(home, ".config")
	}
	dir = filepath.Join(dir, "nats")
	text, _ := os.ReadFile(filepath.Join(dir, "context.txt"))
	if name = strings.TrimSpace(string(text)); name == "" {
		return "", nil
	}
	path := filepath.Join(dir, "context", name+".json")
	var n natsContext
	if text, err = os.ReadFile(path); err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return name, fmt.Errorf("the selected nats context %s cannot be read: %w", name, err)
	}
	for field, value := range map[string]string{"nsc": n.NSC, "user_jwt": n.JWT, "socks_proxy": n.Proxy, "jetstream_domain": n.Domain, "jetstream_api_prefix": n.APIPrefix} {
		if value != "" {
			return name, fmt.Errorf("the selected nats context %s (%s) uses %s, which is not supported", name, path, field)
		}
	}
	if n.URL == "" {
		return "", nil
	}
	n.apply(c)
	return name, nil
}

// apply sets the address, and the login and TLS that are not configured.
func (n *natsContext) apply(c *config.NATS) {
	c.URL = n.URL
	if c.Creds+c.NKey+c.User+c.Token == "" {
		c.Creds, c.NKey, c.Token, c.User, c.Password = expandHome(n.Creds), expandHome(n.NKey), n.Token, n.User, n.Password
	}
	if (c.TLS == config.TLS{}) {
		c.TLS = config.TLS{CA: expandHome(n.CA), Cert: expandHome(n.Cert), Key: expandHome(n.Key)}
	}
	if c.InboxPrefix == "" {
		c.InboxPrefix = n.InboxPrefix
	}
	c.TLSFirst = c.TLSFirst || n.TLSFirst
}

// expandHome replaces a leading ~ by the home directory.
func expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
