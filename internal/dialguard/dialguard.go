// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// ErrRefused is wrapped by the errors of refused connections.
var ErrRefused = errors.New("connections to loopback and link-local addresses, and to those of the manager's own " +
	"machine or cloud, are refused")

// metadata are the addresses of the metadata services of clouds that are not link-local: those of AWS in IPv6, Google,
// Alibaba, Azure and Oracle.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
}

// MetadataServices returns the addresses of the metadata services of clouds that are not link-local.
func MetadataServices() []netip.Prefix { return slices.Clone(metadata) }

// nat64 is the prefix of IPv6 addresses that contain an IPv4 address (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func plain(address netip.Addr) netip.Addr {
	address = address.WithZone("").Unmap()
	if nat64.Contains(address) {
		bytes := address.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return address
}

// IsMetadata reports whether an address is link-local or the address of a cloud's metadata service, in any form.
func IsMetadata(address netip.Addr) bool {
	address = plain(address)
	return address.IsLinkLocalUnicast() ||
		slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(address) })
}

// thisNetwork is the network 0.0.0.0/8, which systems treat as their own addresses.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// IsLocal reports whether [IsMetadata] is true for an address, or the address is loopback, unspecified or multicast, in
// any form.
func IsLocal(address netip.Addr) bool {
	own := plain(address)
	return IsMetadata(address) || own.IsLoopback() || own.IsUnspecified() || own.IsMulticast() ||
		own.Is4() && thisNetwork.Contains(own)
}

// IsLocalName reports whether the host in a URL is localhost, or an address for which [IsLocal] is true.
func IsLocalName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return IsLocal(address)
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// ProxyFunc selects the proxy of a request, as in http.Transport.
type ProxyFunc func(*http.Request) (*url.URL, error)

// Guard dials addresses that Refuse does not refuse. Dialer and Refuse must be set.
type Guard struct {
	Dialer *net.Dialer
	// Refuse reports whether an address is refused.
	Refuse func(netip.Addr) bool
	// Err is the error for refused addresses. Default: ErrRefused.
	Err error

	proxies sync.Map
}

// Trusted returns a ProxyFunc that selects the same proxies as choose. The Guard dials these
// proxies at any address.
func (g *Guard) Trusted(choose ProxyFunc) ProxyFunc {
	return func(req *http.Request) (*url.URL, error) {
		chosen, err := choose(req)
		if chosen != nil {
			g.proxies.Store(chosen.Hostname(), true)
		}
		return chosen, err
	}
}

// DialContext connects to an address, as net.Dialer does.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if _, ok := g.proxies.Load(host); err == nil && ok {
		return g.Dialer.DialContext(ctx, network, address)
	}
	guarded := *g.Dialer
	guarded.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		switch {
		case err == nil && !g.Refuse(at.Addr()):
			return nil
		case g.Err != nil:
			return g.Err
		}
		return ErrRefused
	}
	return guarded.DialContext(ctx, network, address)
}
