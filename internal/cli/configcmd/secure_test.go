package configcmd_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// secure init creates matching files, replaces no file, and renews only the server's
// certificate. TestSecurePlant (internal/cli/live) tests the roles.
func TestConfigInitSecure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a plant") // a path that requires quotes
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file, keys := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "eusn-secure")
	read := func(name string) string { return string(clitest.Read(t, filepath.Join(keys, name))) }

	clitest.Exec(t, t.Context(), "secure", "init", "--renew", file).Want(t, cli.ExitFailure, "ca.pem", "try: eusn-stream secure init")
	clitest.Exec(t, t.Context(), "secure", "init", "--host", "plant:4222", file).Want(t, cli.ExitUsage, `host "plant:4222"`, "without a port")
	clitest.Exec(t, t.Context(), "secure", "init", filepath.Join(dir, "none", "c.yaml")).Want(t, cli.ExitFailure, "no such file", "try:")
	clitest.Leftovers(t, dir)

	clitest.Must(t, "secure", "init", file)
	clitest.Must(t, "config", "check", file)
	ca, cert, users := read("ca.pem"), read("server.pem"), read("users")
	checkTrust(t, keys)
	for _, role := range []string{"sensor", "gateway", "stage", "reader", "analyst", "labeler", "alarms", "operator"} {
		env := read(role + ".env")
		_, rest, _ := strings.Cut(env, "EUSN_NATS_PASSWORD=")
		password, _, _ := strings.Cut(rest, "\n")
		if len(password) < 26 || strings.Contains(users, password) || !strings.Contains(users, "\n"+role+" "+role+" $2a$") {
			t.Errorf("%s.env and the line of its user do not fit:\n%s\n%s", role, env, users)
		}
	}
	var port struct {
		name, password, token string
	}
	port.token = strings.TrimSpace(read("metrics.token"))
	if _, err := fmt.Sscanf(read("metrics.netrc"), "default login %s password %s\n", &port.name, &port.password); err != nil {
		t.Error(err)
	}
	_, hash, _ := strings.Cut(strings.TrimSpace(read("metrics.users")), "\n"+port.name+":")
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(port.password)) != nil || len(port.password) < 26 || len(port.token) < 26 || port.token == port.password {
		t.Errorf("the logins of the metrics port do not fit: %+v, %q", port, hash)
	}
	clitest.Exec(t, t.Context(), "secure", "init", file).Want(t, cli.ExitFailure, "was not changed", "--renew")
	if read("ca.pem") != ca || read("users") != users {
		t.Error("what was there was replaced")
	}

	clitest.Must(t, "secure", "init", "--renew", file)
	if read("ca.pem") != ca || read("users") != users || read("server.pem") == cert {
		t.Error("--renew makes another certificate, and nothing else")
	}
	checkTrust(t, keys)
	r := clitest.Must(t, "secure", "init", "--renew", "--host", "other.example", file)
	if checkTrust(t, keys); !strings.Contains(r.ErrOut, "other.example, localhost, 127.0.0.1") {
		t.Errorf("--renew --host says\n%s", r.ErrOut)
	}
	clitest.Write(t, filepath.Join(keys, "ca.key"), read("server.key"))
	clitest.Exec(t, t.Context(), "secure", "init", "--renew", file).Want(t, cli.ExitFailure, "the key does not match the certificate", "try:")

	// An existing configuration stays, and the command prints the lines to add.
	other := filepath.Join(t.TempDir(), "c.yaml")
	clitest.Write(t, other, "job: mine\n")
	r = clitest.Must(t, "secure", "init", other)
	if text := string(clitest.Read(t, other)); text != "job: mine\n" {
		t.Errorf("the configuration was changed:\n%s", text)
	}
	_, lines, ok := strings.Cut(r.ErrOut, "Put this into it:\n\n")
	lines, _, _ = strings.Cut(lines, "\n\n")
	clitest.Write(t, other, "job: mine\n"+lines+"\n")
	if clitest.Must(t, "config", "check", other); !ok || !strings.Contains(lines, "listen: 0.0.0.0") {
		t.Errorf("says\n%s", r.ErrOut)
	}
}

// checkTrust checks that the server's files match each other and the authority.
func checkTrust(t *testing.T, keys string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(keys, "server.pem"), filepath.Join(keys, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(clitest.Read(t, filepath.Join(keys, "ca.pem")))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "localhost"}); err != nil {
		t.Error(err)
	}
}
