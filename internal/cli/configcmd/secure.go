package configcmd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/roles"
)

// Files in the folder of secure init.
const (
	secureFolder  = "eusn-secure"
	authorityCert = "ca.pem"
	authorityKey  = "ca.key"
	serverCert    = "server.pem"
	serverKey     = "server.key"
	usersFile     = "users"
	metricsUsers  = "metrics.users"
	metricsToken  = "metrics.token"
	metricsNetrc  = "metrics.netrc"
)

// secureOptions are the options of secure init.
type secureOptions struct {
	renew bool
	hosts []string
}

// initSecure creates the files of a server reachable from other machines: an authority, a
// certificate, users, and a configuration with their paths. It replaces nothing.
func initSecure(a *cli.App, path string, o secureOptions) error {
	for _, h := range o.hosts {
		if err := certs.CheckHost(h); err != nil {
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--host: %w", err), "eusn-stream config init --help")
		}
	}
	dir := filepath.Join(filepath.Dir(path), secureFolder)
	if o.renew {
		return renewServer(a, dir, o.hosts)
	}
	if _, err := os.Lstat(dir); err == nil {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s exists and was not changed", dir),
			"--renew for a new server certificate with the same authority and users; or a configuration file in another folder")
	}
	hosts, err := completeHosts(o.hosts)
	if err != nil {
		return err
	}
	files, err := newSecrets(dir, hosts)
	if err != nil {
		return err
	}
	if err := writeFolder(dir, files); err != nil {
		return cli.Fail(cli.ExitFailure, err, "choose a configuration file in a folder that can be written")
	}
	a.Say("wrote %s: an authority, a certificate for %s, and a user for each role", dir, strings.Join(hosts, ", "))
	return writeConfig(a, path, dir)
}

// completeHosts returns the given hosts with this machine's loopback, or all hosts of this
// machine by default.
func completeHosts(given []string) ([]string, error) {
	if len(given) > 0 {
		hosts := slices.Clone(given)
		for _, h := range certs.LocalHosts("", nil) {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		return hosts, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("the name of this machine: %w", err), "--host with its name or address")
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("the addresses of this machine: %w", err), "--host with its name or address")
	}
	return certs.LocalHosts(name, addrs), nil
}

// newSecrets returns the files of the folder.
func newSecrets(dir string, hosts []string) (map[string][]byte, error) {
	now := time.Now()
	authority, err := certs.NewAuthority("eusn-stream authority of "+hosts[0], now)
	if err != nil {
		return nil, err
	}
	server, err := certs.NewServer(authority, hosts, now)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{authorityCert: authority.Cert, authorityKey: authority.Key, serverCert: server.Cert, serverKey: server.Key}
	users := "# Users of the NATS server, a line each: name, role, bcrypt hash of the password.\n"
	for _, role := range roles.All {
		u, password, err := roles.NewUser(string(role), role)
		if err != nil {
			return nil, err
		}
		users += u.FormatLine() + "\n"
		files[string(role)+".env"] = userEnvironment(u, password, hosts[0], filepath.Join(dir, authorityCert))
	}
	files[usersFile] = []byte(users)
	return files, addMetricsSecrets(files)
}

// addMetricsSecrets adds the logins of the metrics port: a token for Prometheus, and a person's
// name and password, with the password's hash for the port.
func addMetricsSecrets(files map[string][]byte) error {
	const name = "operator"
	password := rand.Text() // 130 random bits are not guessable, so bcrypt's minimum cost is enough
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return err
	}
	files[metricsUsers] = fmt.Appendf(nil, "# Who may log in to the metrics port, a line each, as htpasswd -nB NAME writes it.\n%s:%s\n", name, hash)
	files[metricsNetrc] = fmt.Appendf(nil, "default login %s password %s\n", name, password)
	files[metricsToken] = fmt.Appendln(nil, rand.Text())
	return nil
}

// userEnvironment returns the environment file of a user's program: eusn-stream reads it from
// the environment, other programs need the same values.
func userEnvironment(u roles.User, password, host, ca string) []byte {
	return fmt.Appendf(nil, `# %s: %s.
# Copy this file and %s to the machine of that program; set the path below if they are not in the working directory.
EUSN_NATS_URL=tls://%s
EUSN_NATS_TLS_CA=%s
EUSN_NATS_USER=%s
EUSN_NATS_PASSWORD=%s
EUSN_NATS_INBOX_PREFIX=%s
`, u.Name, u.Role.Purpose(), authorityCert, net.JoinHostPort(host, "4222"), cli.QuoteForShell(ca), u.Name, password, roles.InboxPrefix(u.Name))
}

// writeFolder creates a folder with files for its owner only, atomically.
func writeFolder(dir string, files map[string][]byte) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".eusn-secure-*.tmp")
	if err != nil {
		return err
	}
	for name, data := range files {
		if err == nil {
			err = cli.ReplaceFile(filepath.Join(tmp, name), data, cli.Private)
		}
	}
	if err == nil {
		err = os.Rename(tmp, dir) // fails if dir was created meanwhile and is not empty
	}
	if err != nil {
		os.RemoveAll(tmp)
	}
	return err
}

// writeConfig writes a configuration with the folder's files, or prints the lines for an
// existing configuration.
func writeConfig(a *cli.App, path, dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	text, lines := string(config.DefaultYAML), ""
	set := func(value string, path ...string) error {
		last := len(path) - 1
		lines += fmt.Sprintf("%s%s: %s\n", strings.Repeat("  ", last), path[last], quoteYAML(value))
		var ok bool
		if text, ok = setKey(text, path, quoteYAML(value)); !ok {
			return fmt.Errorf("BUG: default.yaml lacks %s", strings.Join(path, "."))
		}
		return nil
	}
	for _, group := range []struct {
		name string
		keys [][2]string
	}{
		{"server", [][2]string{{"listen", "0.0.0.0"}, {"users", in(usersFile)}}},
		{"metrics", [][2]string{{"users", in(metricsUsers)}, {"token_file", in(metricsToken)}}},
	} {
		lines += group.name + ":\n"
		for _, k := range group.keys {
			if err := set(k[1], group.name, k[0]); err != nil {
				return err
			}
		}
		lines += "  tls:\n"
		if err := errors.Join(set(in(serverCert), group.name, "tls", "cert"), set(in(serverKey), group.name, "tls", "key")); err != nil {
			return err
		}
	}
	switch _, err := os.Lstat(path); {
	case err == nil:
		a.Say("%s exists and was not changed. Put this into it:\n\n%s", path, lines)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if err := cli.ReplaceFile(path, []byte(text), cli.Public); err != nil {
			return cli.Fail(cli.ExitFailure, err, "put this into your configuration:\n\n"+lines)
		}
		a.Say("wrote %s, which uses it", path)
	}
	printNextSteps(a, path, dir)
	return nil
}

// setKey replaces the value of a key, by its path of groups, in default.yaml.
func setKey(text string, path []string, value string) (string, bool) {
	offset := 0
	for depth, name := range path {
		line := fmt.Sprintf("\n%s%s:", strings.Repeat("  ", depth), name)
		found := strings.Index(text[offset:], line)
		if found < 0 {
			return "", false
		}
		offset += found + len(line)
	}
	return text[:offset] + " " + value + text[offset+strings.IndexByte(text[offset:], '\n'):], true
}

// quoteYAML quotes a path if YAML requires it.
func quoteYAML(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") != "" || strings.HasPrefix(s, "-") {
		return strconv.Quote(s)
	}
	return s
}

// printNextSteps prints the recipients of each file.
func printNextSteps(a *cli.App, path, dir string) {
	in := func(name string) string { return cli.QuoteForShell(filepath.Join(dir, name)) }
	a.Say(`
Set model in %[1]s, and start the stage here:

    eusn-stream run -c %[1]s

Copy %[2]s to every machine, and one of these to each program (it has the address, the user and the password):
`, cli.QuoteForShell(path), in(authorityCert))
	for _, role := range roles.All {
		a.Say("    %-14s %s", string(role)+".env", role.Purpose())
	}
	a.Say(`
eusn-stream reads them from the environment: (set -a; . %s; eusn-stream tail). docs/secure.md has the same for nats, mosquitto_pub, Go, JavaScript and Python.
The metrics port (metrics.listen) is behind TLS and a login, too: %s is Prometheus' token, %s a person's name and password.
Keep %s where nobody else reads it: who has it can make certificates. %s is valid for two years: secure init --renew makes the next one.`,
		in("reader.env"), in(metricsToken), in(metricsNetrc), in(authorityKey), in(serverCert))
}

// renewServer creates a new server certificate with the existing authority, by default for the
// same hosts.
func renewServer(a *cli.App, dir string, hosts []string) error {
	read := func(name string) (data []byte, err error) {
		if data, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			err = cli.Fail(cli.ExitFailure, err, "eusn-stream secure init, which makes all of it; or the configuration file next to "+secureFolder)
		}
		return data, err
	}
	var authority certs.Pair
	var old []byte
	var err error
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{authorityCert, &authority.Cert}, {authorityKey, &authority.Key}, {serverCert, &old}} {
		if *f.to, err = read(f.name); err != nil {
			return err
		}
	}
	if len(hosts) > 0 {
		hosts, err = completeHosts(hosts)
	} else {
		hosts, err = certs.ReadHosts(old)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, serverCert), err)
	}
	server, err := certs.NewServer(authority, hosts, time.Now())
	if err != nil {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s: %w", dir, err), "a new folder: move this one away, then eusn-stream secure init; every client needs the new "+authorityCert)
	}
	// Key and certificate are two files: a server that starts between the two writes refuses
	// them with an error.
	for _, f := range []struct {
		name string
		data []byte
	}{{serverKey, server.Key}, {serverCert, server.Cert}} {
		if err := cli.ReplaceFile(filepath.Join(dir, f.name), f.data, cli.Private); err != nil {
			return cli.Fail(cli.ExitFailure, err, "free space, then the same command again")
		}
	}
	a.Say("wrote %s and %s for %s. Restart the stage: it reads them at its start. Clients need nothing new", filepath.Join(dir, serverCert), filepath.Join(dir, serverKey), strings.Join(hosts, ", "))
	return nil
}
