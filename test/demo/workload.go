// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// maxRelease is the largest size of an unpacked record. The demo's record has some kilobytes.
const maxRelease = 16 << 20

// workload is the content of a workload cluster.
type workload struct {
	// releases are all revisions of the Helm releases of all namespaces.
	releases []helmRelease
	// namespace is true if the namespace of the release exists.
	namespace bool
	// configMap is the content of the chart's ConfigMap, nil if it does not exist.
	configMap map[string]string
	// daemonSetCIDR is the environment variable POD_CIDR of the chart's DaemonSet, empty if it does not exist.
	daemonSetCIDR string
}

// helmRelease is one revision of a release, in the format of Helm's record.
type helmRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
	Info      struct {
		Status string `json:"status"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
	} `json:"chart"`
}

func (r helmRelease) String() string {
	return fmt.Sprintf("%s/%s, Helm revision %d, %s, chart %s", r.Namespace, r.Name, r.Version, r.Info.Status, r.chart())
}

func (r helmRelease) chart() string { return r.Chart.Metadata.Name + "-" + r.Chart.Metadata.Version }

// readWorkload reads the content of a workload cluster as its administrator, not as HelmOp.
func readWorkload(ctx context.Context, config *rest.Config) (*workload, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found := &workload{}
	secrets, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return nil, err
	}
	for i := range secrets.Items {
		release, err := decodeRelease(secrets.Items[i].Data["release"])
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", secrets.Items[i].Namespace, secrets.Items[i].Name, err)
		}
		found.releases = append(found.releases, release)
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, releaseNamespace, metav1.GetOptions{})
	found.namespace = err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	switch configMap, err := client.CoreV1().ConfigMaps(releaseNamespace).Get(ctx, releaseName, metav1.GetOptions{}); {
	case err == nil:
		found.configMap = configMap.Data
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	daemonSet, err := client.AppsV1().DaemonSets(releaseNamespace).Get(ctx, releaseName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, container := range daemonSet.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == "POD_CIDR" {
				found.daemonSetCIDR = variable.Value
			}
		}
	}
	return found, nil
}

// decodeRelease decodes Helm's record in a Secret: compressed JSON, as base64.
func decodeRelease(data []byte) (helmRelease, error) {
	var release helmRelease
	compressed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return release, fmt.Errorf("not a Helm release: %w", err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return release, fmt.Errorf("not a Helm release: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(reader, maxRelease)).Decode(&release); err != nil {
		return release, fmt.Errorf("not a Helm release: %w", err)
	}
	return release, nil
}
