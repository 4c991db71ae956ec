package opcua

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"
)

// loadCertificate reads the client's own certificate.
func (c *Client) loadCertificate() error {
	pair, err := tls.LoadX509KeyPair(c.options.Cert, c.options.Key)
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return errors.New("want an RSA key: the policies of OPC UA support no other")
	}
	if len(pair.Leaf.URIs) == 0 {
		return errors.New("the certificate has no application URI, so servers refuse it: make a new one as described in docs/fieldbus.md")
	}
	c.certificate, c.key = pair.Leaf, key
	return nil
}

// chooseEndpoint chooses one of the server's endpoints and the options to log in.
func (c *Client) chooseEndpoint(ctx context.Context) (opts []opcua.Option, policy string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	all, err := opcua.GetEndpoints(ctx, c.options.URL)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", errEndpoints, err)
	}
	slices.SortStableFunc(all, func(a, b *ua.EndpointDescription) int { return int(b.SecurityLevel) - int(a.SecurityLevel) })
	for _, e := range all {
		policy := e.SecurityPolicyURI[strings.LastIndex(e.SecurityPolicyURI, "#")+1:]
		switch {
		case !c.acceptsPolicy(policy):
			continue
		case c.trust != nil && !bytes.Equal(e.ServerCertificate, c.trust):
			return nil, "", errors.New("the server's certificate differs from gateway.opcua.trust, and nothing was sent: if the server has a new certificate, compare it with the certificate shown on the server itself, and configure it; otherwise gateway.opcua.url leads to another server, or another server answers in its place")
		}
		opts, err := c.loginOptions(e)
		return opts, policy, err
	}
	return nil, "", c.noEndpoint()
}

// loginOptions returns the options to log in at an endpoint.
func (c *Client) loginOptions(e *ua.EndpointDescription) ([]opcua.Option, error) {
	var opts []opcua.Option
	if c.certificate != nil {
		opts = append(opts, opcua.Certificate(c.certificate.Raw), opcua.PrivateKey(c.key))
	}
	tokenType, want := ua.UserTokenTypeAnonymous, "set gateway.opcua.user with EUSN_GATEWAY_OPCUA_PASSWORD, or gateway.opcua.login: certificate"
	switch {
	case c.options.Login == "certificate":
		tokenType, want = ua.UserTokenTypeCertificate, "set gateway.opcua.user with EUSN_GATEWAY_OPCUA_PASSWORD"
		opts = append(opts, opcua.AuthCertificate(c.certificate.Raw), opcua.AuthPrivateKey(c.key))
	case c.options.User != "":
		tokenType, want = ua.UserTokenTypeUserName, "leave gateway.opcua.user empty, or set gateway.opcua.login: certificate"
		opts = append(opts, opcua.AuthUsername(c.options.User, c.options.Password))
	default:
		opts = append(opts, opcua.AuthAnonymous())
	}
	if !slices.ContainsFunc(e.UserIdentityTokens, func(t *ua.UserTokenPolicy) bool { return t.TokenType == tokenType }) {
		return nil, fmt.Errorf("the server does not support this login (%s): %s", loginNames[tokenType], want)
	}
	return append(opts, opcua.SecurityFromEndpoint(e, tokenType)), nil
}

var loginNames = map[ua.UserTokenType]string{ua.UserTokenTypeAnonymous: "anonymous", ua.UserTokenTypeUserName: "name and password", ua.UserTokenTypeCertificate: "certificate"}
