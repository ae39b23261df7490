// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard refuses connections to addresses that no tenant should reach through the manager: its own machine,
// and what clouds tell machines at link-local addresses. It looks at the address that is dialled, after names were
// resolved, so no name leads around it.
//
// # Contract
//
//   - [IsMetadata] addresses are link-local, or those at which clouds tell machines their secrets. [IsLocal] addresses
//     are these, loopback, unspecified and multicast ones. Both see through IPv4 addresses in IPv6 form, NAT64
//     included.
//   - [Guard] dials what its Refuse function does not refuse. A proxy that Trusted chose, which is that of the
//     manager's own environment, is dialled wherever it is.
//   - What a proxy dials, it decides itself. [IsLocalName] recognizes host names and addresses in URLs that mean its
//     own machine.
package dialguard
