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

// ClusterNamespacesIndex finds the HelmOps that serve Clusters of other namespaces; its only value is "true".
const ClusterNamespacesIndex = "spec.hasClusterNamespaces"

const (
	// grantMemory is how long an access that was granted is remembered.
	grantMemory = 5 * time.Minute
	// DeniedMemory is how long a refusal is remembered: nothing tells when rights change.
	DeniedMemory = time.Minute

	// FailedMemory is how long a question that failed is not asked again, so that a namespace with many Clusters costs
	// one, and reviewTimeout how long one may take.
	FailedMemory  = 15 * time.Second
	reviewTimeout = 5 * time.Second
)

// Guard tells whether a HelmOp may serve a Cluster of another namespace. Whoever may get the kubeconfig of a Cluster
// may do there whatever HelmOp could do in their name, so this right is the one that is asked for, of a ServiceAccount
// of the HelmOp's namespace. It is safe for concurrent use.
type Guard struct {
	client client.Client
	Now    func() time.Time

	// management are the namespaces whose HelmOps may serve the management cluster.
	management sets.Set[string]

	mu      sync.Mutex
	answers map[guardQuestion]guardAnswer
}

type guardQuestion struct{ user, namespace, secret string }

// guardAnswer counts until a time. Its error is why there was none.
type guardAnswer struct {
	allowed bool
	err     error
	until   time.Time
}

// NewGuard returns a Guard that lets HelmOps of some namespaces into the management cluster.
func NewGuard(c client.Client, managementNamespaces ...string) *Guard {
	return &Guard{client: c, Now: time.Now, management: sets.New(managementNamespaces...),
		answers: map[guardQuestion]guardAnswer{}}
}

// Allows tells whether a HelmOp may serve a Cluster. Those of its own namespace it may.
func (g *Guard) Allows(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey) (bool, error) {
	if cluster == clusterlink.Management {
		// Whether it is wanted is no matter of access: what is not wanted any more is to be uninstalled.
		return g.management.Has(helmOp.Namespace), nil
	}
	if cluster.Namespace == helmOp.Namespace {
		return true, nil
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return false, nil
	}
	account := helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName
	question := guardQuestion{user: "system:serviceaccount:" + helmOp.Namespace + ":" + account,
		namespace: cluster.Namespace}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + helmOp.Namespace, "system:authenticated"}
	// A right to all Secrets of the namespace spares a question for each Cluster.
	for _, name := range []string{"", secret.Name(cluster.Name, secret.Kubeconfig)} {
		question.secret = name
		if allowed, err := g.ask(ctx, question, groups); err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

func (g *Guard) ask(ctx context.Context, question guardQuestion, groups []string) (bool, error) {
	now := g.Now()
	g.mu.Lock()
	known, ok := g.answers[question]
	g.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.allowed, known.err
	}
	answer := g.review(ctx, question, groups)
	if ctx.Err() != nil {
		// That says nothing about the API server.
		return false, ctx.Err()
	}
	memory := DeniedMemory
	switch {
	case answer.err != nil:
		memory = FailedMemory
	case answer.allowed:
		memory = grantMemory
	}
	answer.until = g.Now().Add(memory)
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, answer := range g.answers {
		if now.After(answer.until) {
			delete(g.answers, other)
		}
	}
	g.answers[question] = answer
	return answer.allowed, answer.err
}

// review asks the API server.
func (g *Guard) review(ctx context.Context, question guardQuestion, groups []string) guardAnswer {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: question.user, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: question.namespace, Verb: "get", Resource: "secrets", Name: question.secret,
		},
	}}
	if err := g.client.Create(ctx, review); err != nil {
		return guardAnswer{err: fmt.Errorf("%w: checking whether %s may get Secrets in namespace %s: %w", ErrAccessUnknown,
			question.user, question.namespace, err)}
	}
	return guardAnswer{allowed: review.Status.Allowed}
}

// ErrAccessUnknown wraps an error of asking whether a HelmOp may serve a Cluster of another namespace.
var ErrAccessUnknown = errors.New("access to the Cluster could not be checked")

// AccessDeniedError says that a HelmOp may not serve a Cluster of another namespace.
type AccessDeniedError struct{ message string }

func (e *AccessDeniedError) Error() string { return e.message }

// DeniedError says why a HelmOp may not access a Cluster.
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
