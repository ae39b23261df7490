// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard refuses connections that no tenant may make through the manager: to the
// manager's own machine, and to the metadata services of clouds. It checks the address after name
// resolution, so a name cannot bypass the check.
//
// # Contract
//
//   - [IsMetadata] addresses are link-local addresses and those of clouds' metadata services.
//     [IsLocal] addresses are these, and loopback, unspecified and multicast addresses. Both
//     recognize IPv4 addresses in IPv6 form, including NAT64.
//   - [Guard] dials what its Refuse function does not refuse. It dials a proxy that Trusted
//     selected, which is the proxy of the manager's own environment, at any address.
//   - A proxy decides itself what it dials. [IsLocalName] recognizes hosts in URLs that would mean
//     the proxy's own machine.
package dialguard
