// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermove

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxShownUnlabelled is the number of objects that the condition Movable names. There may be an object for each
// Cluster.
const maxShownUnlabelled = 10

// WhyNotMovable returns which of the referenced objects of a namespace clusterctl move does not move, and what the user
// can do; empty if it moves all. The references have the form "<kind>/<name>". Objects that do not exist do not count.
func WhyNotMovable(ctx context.Context, metadata client.Reader, namespace string, referenced []string) (string, error) {
	var unlabelled, accounts []string
	for _, reference := range referenced {
		kind, name, _ := strings.Cut(reference, "/")
		if kind == apiutil.KindServiceAccount {
			accounts = append(accounts, name)
			continue
		}
		partial := apiutil.PartialOf(kind)
		err := metadata.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, partial)
		switch {
		case apierrors.IsNotFound(err):
			// Another condition reports a missing object.
		case err != nil:
			return "", fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
		case !inventory.MovesWithClusters(partial):
			unlabelled = append(unlabelled, strings.ToLower(kind)+"/"+name)
		}
	}
	return whyNotMovable(namespace, unlabelled, accounts), nil
}

// whyNotMovable returns the message for objects and ServiceAccounts that are not moved; empty if there are none.
func whyNotMovable(namespace string, unlabelled, accounts []string) string {
	var why []string
	if len(unlabelled) > 0 {
		total, first := len(unlabelled), ""
		if total > maxShownUnlabelled {
			first = fmt.Sprintf(" the first %d of", maxShownUnlabelled)
			unlabelled = unlabelled[:maxShownUnlabelled]
		}
		message := fmt.Sprintf("clusterctl move does not move %s without its label; label%s %s: kubectl -n %s "+
			"label %s %s=", plural.Count(total, "object", "objects"), first, plural.Word(total, "it", "them"), namespace,
			strings.Join(unlabelled, " "), clusterctlv1.ClusterctlMoveLabel)
		why = append(why, message)
	}
	if len(accounts) > 0 {
		why = append(why, fmt.Sprintf("clusterctl move does not move ServiceAccounts; create %s in the other management "+
			"cluster", strings.Join(accounts, ", ")))
	}
	return strings.Join(why, "; ")
}
