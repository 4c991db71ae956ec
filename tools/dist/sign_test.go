package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// commitWith returns a commit whose document has the text.
func commitWith(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, published)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// setKeyFile sets the environment to a file with the text of a secret key.
func setKeyFile(t *testing.T, text []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "minisign.key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyVariable, file)
	t.Setenv(passwordVariable, "")
}

// generateKey makes a key without a password, with minisign.
func generateKey(t *testing.T) (public string, secret []byte) {
	t.Helper()
	cmd := exec.Command("minisign", "-G", "-W", "-p", "public", "-s", "secret")
	cmd.Dir = t.TempDir()
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	secret, err := os.ReadFile(filepath.Join(cmd.Dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "public"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	return lines[len(lines)-1], secret
}

// Debian's minisign accepts the signature with the command of docs/install.md, and
// refuses other checksums, another comment and another key.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		parts.Absent(t, "minisign", "%v: Debian has it", err)
	}
	public, secret := generateKey(t)
	setKeyFile(t, secret)
	key, err := secretKey(commitWith(t, "-P "+public+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "eusn-stream.deb"), []byte("a package"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(out); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := sign(out, key, "1.2.0", at); err != nil {
		t.Fatal(err)
	}
	verify := func(public string) (string, bool) {
		t.Helper()
		cmd := exec.Command("minisign", "-V", "-H", "-m", sumsName, "-P", public)
		cmd.Dir = out
		said, err := cmd.CombinedOutput()
		return string(said), err == nil
	}
	said, ok := verify(public)
	if want := "eusn-stream 1.2.0, commit of 2026-01-02T03:04:05Z"; !ok || !strings.Contains(said, want) {
		t.Fatalf("minisign says %q, want %q", said, want)
	}
	other, _ := generateKey(t)
	if said, ok := verify(other); ok {
		t.Errorf("another key: minisign says %q", said)
	}
	for file, old := range map[string]string{sumsName: "eusn-stream.deb", signatureName: "eusn-stream 1.2.0"} {
		path := filepath.Join(out, file)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(was)
		changed[bytes.Index(was, []byte(old))] ^= 1
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if said, ok := verify(public); ok {
			t.Errorf("a changed byte in %s: minisign says %q", file, said)
		}
		if err := os.WriteFile(path, was, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The same commit gives the same bytes, and the next release replaces this one.
	was, err := os.ReadFile(filepath.Join(out, signatureName))
	if err != nil {
		t.Fatal(err)
	}
	if err := sign(out, key, "1.2.0", at); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(out, signatureName)); err != nil || !bytes.Equal(was, again) {
		t.Errorf("signed again: %q, %v, want %q", again, err, was)
	}
	if err := emptyFolder(out); err != nil {
		t.Error(err)
	}
}

// An unusable key is refused before files are made, and a release without a key is no
// error.
func TestSecretKey(t *testing.T) {
	commit := commitWith(t, "no key yet\n")
	public, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	setKeyFile(t, text)
	if _, err := secretKey(commit); err == nil || !strings.Contains(err.Error(), public.String()) {
		t.Errorf("the document has no public key: %v, want one that says %s", err, public)
	}
	// The beginning of an encrypted key: making a whole key needs a gibibyte.
	setKeyFile(t, []byte("untrusted comment: minisign encrypted secret key\nRWRTY0Iy"+strings.Repeat("A", 204)+"\n"))
	if _, err := secretKey(commit); err == nil || !strings.Contains(err.Error(), passwordVariable) {
		t.Errorf("an encrypted key: %v, want one that says %s", err, passwordVariable)
	}
	t.Setenv(keyVariable, filepath.Join(commit, "none"))
	if _, err := secretKey(commit); err == nil || !strings.Contains(err.Error(), keyVariable) {
		t.Errorf("a file that is not there: %v", err)
	}
	t.Setenv(keyVariable, "")
	if key, err := secretKey(commit); key != nil || err != nil {
		t.Errorf("without a key: %v, %v", key, err)
	}
}
