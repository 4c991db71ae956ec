package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"aead.dev/minisign"
)

const (
	// keyVariable is the environment variable with the file of the secret key, as written
	// by minisign -G, and passwordVariable has its password, if any.
	keyVariable, passwordVariable = "EUSN_SIGN_KEY", "EUSN_SIGN_PASSWORD"

	// published is the document with the public key.
	published = "docs/install.md"

	signatureName = sumsName + ".minisig"
)

// secretKey reads the key for signing releases: nil if the environment has no key file.
// Its public key must be in the document of the commit in dir: a signature without a
// published key is refused before the files are made.
func secretKey(dir string) (*minisign.PrivateKey, error) {
	path, password := os.Getenv(keyVariable), os.Getenv(passwordVariable)
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyVariable, err)
	}
	var key minisign.PrivateKey
	switch encrypted := minisign.IsEncrypted(text); {
	case encrypted && password == "":
		return nil, fmt.Errorf("%s: %s is encrypted: set its password in %s", keyVariable, path, passwordVariable)
	case encrypted:
		key, err = minisign.DecryptKey(password, text)
	default:
		err = key.UnmarshalText(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s is not a secret key, or %s is not its password: %w", keyVariable, path, passwordVariable, err)
	}
	doc, err := os.ReadFile(filepath.Join(dir, published))
	if err != nil {
		return nil, err
	}
	if public := fmt.Sprint(key.Public()); !bytes.Contains(doc, []byte(public)) {
		return nil, fmt.Errorf("%s: the public key of %s is not in %s of this commit: write %s there", keyVariable, path, published, public)
	}
	return &key, nil
}

// sign writes the signature of the checksums. The comment is signed as well and contains
// the version, so that an older release cannot pass for a newer one. The time is the
// commit's: the same commit and key give the same bytes.
func sign(out string, key *minisign.PrivateKey, version string, at time.Time) error {
	list, err := os.Open(filepath.Join(out, sumsName))
	if err != nil {
		return err
	}
	defer list.Close()
	r := minisign.NewReader(list)
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	comment := fmt.Sprintf("eusn-stream %s, commit of %s", version, at.Format(time.RFC3339))
	return write(filepath.Join(out, signatureName), r.SignWithComments(*key, comment, "signature of the checksums of eusn-stream"))
}
