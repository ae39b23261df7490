// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// servers has the configs of connected Clusters, by their names. A Cluster with a nil config was not tried.
type servers struct {
	clusterview.Clusters
	configs map[string]*rest.Config
}

func (s servers) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	switch config, ok := s.configs[cluster.Name]; {
	case !ok:
		return nil, fmt.Errorf("%w: %s", clusterlink.ErrNotConnected, cluster)
	case config == nil:
		return nil, fmt.Errorf("%w: %s", clusterlink.ErrNotTried, cluster)
	default:
		return config, nil
	}
}

func TestSameCluster(t *testing.T) {
	t.Parallel()
	server := func(host, name, authority string) *rest.Config {
		return &rest.Config{Host: host,
			TLSClientConfig: rest.TLSClientConfig{ServerName: name, CAData: []byte(authority)}}
	}
	release := func(cluster string) *addonsv1.HelmOpRelease {
		return &addonsv1.HelmOpRelease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "cni-" + cluster, UID: types.UID("uid-" + cluster)},
			Spec:       addonsv1.HelmOpReleaseSpec{ClusterRef: addonsv1.ClusterReference{Name: cluster}}}
	}
	records := func(uids ...string) (observation model.Observation) {
		for _, uid := range uids {
			observation.Records = append(observation.Records, model.Record{UID: uid})
		}
		return observation
	}
	const conflict = "The release belongs to HelmOpRelease cni-b. The kubeconfigs of the Clusters a and b lead to " +
		"the same API server, https://a: correct the Secret with the wrong kubeconfig, a-kubeconfig or b-kubeconfig"
	for name, tc := range map[string]struct {
		observation model.Observation
		other       *rest.Config
		isConnected bool
		want        string
		err         error
	}{
		"no record":                   {isConnected: true, other: server("https://a", "", "x")},
		"an own record":               {observation: records("uid-a", "uid-b"), isConnected: true, other: server("https://a", "", "x")},
		"a record of a former object": {observation: records("uid-former"), isConnected: true, other: server("https://a", "", "x")},
		"the same server":             {observation: records("uid-b"), isConnected: true, other: server("https://a", "", "x"), want: conflict},
		"a newer record without UID": {observation: records("", "uid-b"), isConnected: true,
			other: server("https://a", "", "x"), want: conflict},
		"another address":       {observation: records("uid-b"), isConnected: true, other: server("https://b", "", "x")},
		"another name":          {observation: records("uid-b"), isConnected: true, other: server("https://a", "b", "x")},
		"another authority":     {observation: records("uid-b"), isConnected: true, other: server("https://a", "", "y")},
		"the other unreachable": {observation: records("uid-b")},
		"the other not tried":   {observation: records("uid-b"), isConnected: true, err: clusterlink.ErrNotTried},
	} {
		clusters := servers{configs: map[string]*rest.Config{"a": server("https://a", "", "x")}}
		if tc.isConnected {
			clusters.configs["b"] = tc.other
		}
		r := &Reconciler{client: controllertest.StoreOf(t, release("a"), release("b")), clusters: clusters}
		if got, err := r.sameCluster(t.Context(), release("a"), tc.observation); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, tc.want, tc.err)
		}
	}
}
