package opcua

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
)

// readTrust reads the server's certificate, DER or PEM, with or without text before it.
func readTrust(path string) ([]byte, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	der := file
	for rest := file; ; {
		block, more := pem.Decode(rest)
		if block == nil {
			break
		}
		if rest = more; block.Type == "CERTIFICATE" {
			der = block.Bytes
			break
		}
	}
	if all, err := x509.ParseCertificates(der); err != nil || len(all) == 0 { // a chain is one behind the other
		return nil, fmt.Errorf("%s holds no certificate: want one as PEM or DER", path)
	}
	return der, nil
}

// takes reports whether an endpoint may have a policy. Under None nobody proves that
// the certificate is his: whoever sits between could hide the server's other
// endpoints, show the server's certificate, and get the password. So auto does not
// fall back to None where the certificate was given and could be proved.
func (c *Client) takes(policy string) bool {
	switch {
	case policy == "auto" || !slices.Contains(Policies, policy):
		return false
	case policy == "None":
		return c.o.Policy == "None" || c.o.Policy == "auto" && (c.trust == nil || c.own == nil)
	}
	return c.own != nil && (c.o.Policy == "auto" || c.o.Policy == policy)
}

// noEndpoint is the error of a server that has no endpoint with such a policy.
func (c *Client) noEndpoint() error {
	why := ""
	switch {
	case c.own == nil:
		why = " (without gateway.opcua.cert and gateway.opcua.key, only None can be used)"
	case c.trust != nil && c.o.Policy == "auto":
		why = " (with gateway.opcua.trust, auto does not take None, where nobody proves that a certificate is his: set None to take it all the same)"
	}
	return fmt.Errorf("the server has no endpoint for gateway.opcua.security: %s%s", c.o.Policy, why)
}
