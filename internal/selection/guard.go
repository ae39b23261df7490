// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ClusterNamespacesIndex is the name of an index of the HelmOps with spec.clusterNamespaces. Its only value is "true".
const ClusterNamespacesIndex = "spec.hasClusterNamespaces"

const (
	// allowedTTL is the time for which a granted access is cached.
	allowedTTL = 5 * time.Minute

	// DeniedTTL is the time for which a denied access is cached. No event is sent when permissions change.
	DeniedTTL = time.Minute

	// FailedTTL is the time for which a failed review is cached, so that a namespace with many Clusters causes a single
	// review.
	FailedTTL = 15 * time.Second

	// reviewTimeout is the longest time that a review may take.
	reviewTimeout = 5 * time.Second
)

// Guard checks whether a HelmOp may access a Cluster of another namespace. A ServiceAccount in the namespace of the
// HelmOp must have the permission to get the Secret with the kubeconfig of the Cluster. With this kubeconfig, a user
// could do the same in the Cluster as HelmOp does for the user. It is safe for concurrent use.
type Guard struct {
	client client.Client
	Now    func() time.Time

	// management are the namespaces whose HelmOps may access the management cluster.
	management sets.Set[string]

	mu      sync.Mutex
	results map[accessQuery]accessResult
}

// accessQuery asks whether a user may get a Secret of a namespace. An empty name means all Secrets.
type accessQuery struct{ user, namespace, secret string }

// accessResult is the result of a review, with the time until which it is valid. The error is set if the review failed.
type accessResult struct {
	allowed bool
	err     error
	until   time.Time
}

// NewGuard returns a Guard that allows HelmOps of some namespaces to access the management cluster.
func NewGuard(c client.Client, managementNamespaces ...string) *Guard {
	return &Guard{client: c, Now: time.Now, management: sets.New(managementNamespaces...),
		results: map[accessQuery]accessResult{}}
}

// Allows reports whether a HelmOp may access a Cluster. A HelmOp may access all Clusters of its namespace.
func (g *Guard) Allows(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey) (bool, error) {
	if cluster == clusterlink.Management {
		// spec.managementCluster is not checked: a HelmOp without it still needs the access to uninstall.
		return g.management.Has(helmOp.Namespace), nil
	}
	if cluster.Namespace == helmOp.Namespace {
		return true, nil
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return false, nil
	}
	account := helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName
	query := accessQuery{user: "system:serviceaccount:" + helmOp.Namespace + ":" + account,
		namespace: cluster.Namespace}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + helmOp.Namespace, "system:authenticated"}
	// If the ServiceAccount may get all Secrets of the namespace, a review for each Cluster is not necessary.
	for _, name := range []string{"", secret.Name(cluster.Name, secret.Kubeconfig)} {
		query.secret = name
		if allowed, err := g.check(ctx, query, groups); err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

func (g *Guard) check(ctx context.Context, query accessQuery, groups []string) (bool, error) {
	now := g.Now()
	g.mu.Lock()
	known, ok := g.results[query]
	g.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.allowed, known.err
	}
	result := g.review(ctx, query, groups)
	if ctx.Err() != nil {
		// Do not cache this result: the context ended, and the API server may work.
		return false, ctx.Err()
	}
	ttl := DeniedTTL
	switch {
	case result.err != nil:
		ttl = FailedTTL
	case result.allowed:
		ttl = allowedTTL
	}
	result.until = g.Now().Add(ttl)
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, result := range g.results {
		if now.After(result.until) {
			delete(g.results, other)
		}
	}
	g.results[query] = result
	return result.allowed, result.err
}

// review sends a SubjectAccessReview to the API server.
func (g *Guard) review(ctx context.Context, query accessQuery, groups []string) accessResult {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: query.user, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: query.namespace, Verb: "get", Resource: "secrets", Name: query.secret,
		},
	}}
	if err := g.client.Create(ctx, review); err != nil {
		return accessResult{err: fmt.Errorf("%w: checking whether %s may get Secrets in namespace %s: %w", ErrAccessUnknown,
			query.user, query.namespace, err)}
	}
	return accessResult{allowed: review.Status.Allowed}
}

// ErrAccessUnknown is wrapped by the error of a check that failed: it is not known whether a HelmOp may access a
// Cluster of another namespace.
var ErrAccessUnknown = errors.New("access to the Cluster could not be checked")

// AccessDeniedError is the error of a HelmOp that may not access a Cluster.
type AccessDeniedError struct{ message string }

func (e *AccessDeniedError) Error() string { return e.message }

// DeniedError returns an AccessDeniedError that says why a HelmOp may not access a Cluster, and what to do.
func DeniedError(helmOp *addonsv1.HelmOp, cluster client.ObjectKey) error {
	if cluster == clusterlink.Management {
		return &AccessDeniedError{fmt.Sprintf(
			"HelmOps in namespace %s may not install in the management cluster; "+
				"the operator of the manager can allow it with --management-cluster-namespaces", helmOp.Namespace)}
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return &AccessDeniedError{fmt.Sprintf("Cluster %s is in another namespace, and spec.clusterNamespaces is not set",
			cluster)}
	}
	return &AccessDeniedError{fmt.Sprintf("ServiceAccount %s/%s may not get Secret %s in namespace %s; grant it this "+
		"right with a Role and a RoleBinding there",
		helmOp.Namespace, helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName,
		secret.Name(cluster.Name, secret.Kubeconfig), cluster.Namespace)}
}
