package opcua

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
)

// readTrust reads the server's certificate, DER or PEM. Text before the certificate is skipped.
func readTrust(path string) ([]byte, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	der := file
	for next := file; ; {
		block, remainder := pem.Decode(next)
		if block == nil {
			break
		}
		if next = remainder; block.Type == "CERTIFICATE" {
			der = block.Bytes
			break
		}
	}
	if all, err := x509.ParseCertificates(der); err != nil || len(all) == 0 { // a chain is a concatenation of certificates
		return nil, fmt.Errorf("%s holds no certificate: want one as PEM or DER", path)
	}
	return der, nil
}

// acceptsPolicy reports whether an endpoint may have a policy. Under None the server does not
// prove that it owns its certificate: an attacker in the network could hide other endpoints,
// show the server's certificate, and get the password. So auto does not fall back to None if
// the certificate is pinned and could be proved.
func (c *Client) acceptsPolicy(policy string) bool {
	switch {
	case policy == "auto" || !slices.Contains(Policies, policy):
		return false
	case policy == "None":
		return c.options.Policy == "None" || c.options.Policy == "auto" && (c.trust == nil || c.certificate == nil)
	}
	return c.certificate != nil && (c.options.Policy == "auto" || c.options.Policy == policy)
}

// noEndpoint is the error of a server without an acceptable endpoint.
func (c *Client) noEndpoint() error {
	hint := ""
	switch {
	case c.certificate == nil:
		hint = " (without gateway.opcua.cert and gateway.opcua.key, only None can be used)"
	case c.trust != nil && c.options.Policy == "auto":
		hint = " (with gateway.opcua.trust, auto does not select None, because None does not prove who owns a certificate: set None to select it anyway)"
	}
	return fmt.Errorf("the server has no endpoint for gateway.opcua.security: %s%s", c.options.Policy, hint)
}
