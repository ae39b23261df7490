// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// kubeconfigSecret returns the Secret with the kubeconfig of a Cluster.
func kubeconfigSecret(t *testing.T, cluster string, server *clientcmdapi.Cluster) *corev1.Secret {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.CurrentContext = server, "x"
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: cluster + "-kubeconfig"},
		Data: map[string][]byte{"value": data}}
}

func TestSameCluster(t *testing.T) {
	t.Parallel()
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
	server := func(address, name, authority, proxy string) *clientcmdapi.Cluster {
		return &clientcmdapi.Cluster{Server: address, TLSServerName: name, CertificateAuthorityData: []byte(authority),
			ProxyURL: proxy}
	}
	const belongs = "The release belongs to HelmOpRelease cni-b. "
	const conflict = belongs + "The kubeconfigs of the Clusters a and b lead to the same API server, https://a: correct " +
		"the Secret with the wrong kubeconfig, a-kubeconfig or b-kubeconfig"
	const unknown = belongs + "HelmOp cannot compare the kubeconfigs of the Clusters a and b: correct the Secrets " +
		"a-kubeconfig and b-kubeconfig"
	same := server("https://a/", "", "x", "")
	runs := &clientcmdapi.Cluster{Server: "https://a", CertificateAuthority: "/var/run/ca.crt"}
	for name, tc := range map[string]struct {
		observation model.Observation
		// other is the API server of the other Cluster; nil for no kubeconfig.
		other *clientcmdapi.Cluster
		want  string
	}{
		"no record":                  {other: same},
		"an own record":              {observation: records("uid-a", "uid-b"), other: same},
		"a record of a former":       {observation: records("uid-former"), other: same},
		"the same server":            {observation: records("uid-b"), other: same, want: conflict},
		"a newer record without UID": {observation: records("", "uid-b"), other: same, want: conflict},
		"another address":            {observation: records("uid-b"), other: server("https://b", "", "x", "")},
		"another name":               {observation: records("uid-b"), other: server("https://a", "b", "x", "")},
		"another authority":          {observation: records("uid-b"), other: server("https://a", "", "y", "")},
		"another proxy":              {observation: records("uid-b"), other: server("https://a", "", "x", "http://p")},
		"no kubeconfig":              {observation: records("uid-b"), want: unknown},
		"a refused kubeconfig":       {observation: records("uid-b"), other: runs, want: unknown},
	} {
		objects := []client.Object{release("a"), release("b"), kubeconfigSecret(t, "a", server("https://a", "", "x", ""))}
		if tc.other != nil {
			objects = append(objects, kubeconfigSecret(t, "b", tc.other))
		}
		store := controllertest.StoreOf(t, objects...)
		r := &Reconciler{client: store, kubeconfigs: clusterview.SafeKubeconfigs(store)}
		if got, err := r.sameCluster(t.Context(), release("a"), tc.observation); got != tc.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}
