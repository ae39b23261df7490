// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// These are the keys in log entries of a manager.
const (
	keyHelmOp   = "HelmOp"
	keyRelease  = "HelmOpRelease"
	keyCluster  = "Cluster"
	keyRevision = "HelmOpRevision"

	// keyBody is the key of client-go for the content of requests and responses. Secrets in it have a notation in which
	// their values cannot be found.
	keyBody = "body"
)

// subject is the object whose entries a user wants to see: a HelmOp with its releases, or one of these releases.
type subject struct {
	helmOp client.ObjectKey

	// others are the names of the other HelmOps in the namespace. They are needed because the name of a release begins
	// with the name of its HelmOp.
	others []string

	// cluster is the Cluster of the release; nil for all Clusters.
	cluster *client.ObjectKey
}

// concerns reports whether an entry is about the subject.
func (s *subject) concerns(e *entry) bool {
	keys := e.keys
	if about, kind := keys["object"], keys["kind"]; about != "" && kind != "" {
		// The entry is an Event, which a manager logs with a high verbosity.
		keys = map[string]string{kind: about}
	}
	switch {
	case keys[keyHelmOp] != "":
		return keys[keyHelmOp] == s.helmOp.String() && (s.cluster == nil || s.isCluster(keys[keyCluster]))
	case keys[keyRelease] != "":
		return s.isRelease(keys[keyRelease])
	case keys[keyRevision] != "":
		return s.cluster == nil && s.isOwned(keys[keyRevision])
	default:
		return s.cluster != nil && keys[keyCluster] == s.cluster.String()
	}
}

// isCluster reports whether a value names the Cluster. The manager omits the namespace of the HelmOp in some entries.
func (s *subject) isCluster(value string) bool {
	return value != "" && (value == s.cluster.String() || value == apiutil.TitleOf(s.helmOp.Namespace, *s.cluster))
}

// isRelease reports whether a value names a release of the subject.
func (s *subject) isRelease(value string) bool {
	if s.cluster == nil {
		return s.isOwned(value)
	}
	return value == s.helmOp.Namespace+"/"+
		apiutil.ChildName(s.helmOp.Name, apiutil.TitleOf(s.helmOp.Namespace, *s.cluster))
}

// isOwned reports whether a value names an object that a HelmOp created. The object may no longer exist.
func (s *subject) isOwned(value string) bool {
	namespace, name, _ := strings.Cut(value, "/")
	return namespace == s.helmOp.Namespace && fleetview.BelongsTo(name, s.helmOp.Name, s.others)
}
