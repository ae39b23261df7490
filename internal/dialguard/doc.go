// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard refuses connections that a tenant must not make through the manager: to the manager's own machine,
// and to the metadata services of clouds. It checks the address after name resolution, so a name cannot bypass the
// check.
//
// # Contract
//
//   - [IsMetadata] is true for link-local addresses and for the metadata services of clouds. [IsLocal] is true for
//     these addresses, and for loopback, unspecified and multicast addresses. Both recognize IPv4 addresses in IPv6
//     form, including NAT64.
//   - [Guard] dials an address unless its Refuse function refuses the address. It dials a proxy that Trusted selected
//     at any address: this is the proxy of the manager's own environment.
//   - A proxy itself decides which addresses it dials. [IsLocalName] finds hosts in URLs that would mean the proxy's
//     own machine.
package dialguard
