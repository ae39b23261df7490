// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// recordDriver is the storage driver below [records.RecordingDriver]. It creates and labels the release's namespace. It
// also records which manifests are in the storage.
type recordDriver struct {
	records.CarefulDriver
	namespace *namespacing.Namespacer
	seen      *manifests.Recorded
}

// Create implements driver.Driver.
func (d *recordDriver) Create(key string, rls *release.Release) error {
	return d.namespace.Around(func() error { return d.CarefulDriver.Create(key, rls) })
}

// Replace implements CarefulDriver.
func (d *recordDriver) Replace(key string, rls *release.Release) error {
	return d.namespace.Around(func() error { return d.CarefulDriver.Replace(key, rls) })
}

// Get implements driver.Driver.
func (d *recordDriver) Get(key string) (*release.Release, error) {
	rls, err := d.CarefulDriver.Get(key)
	if err == nil {
		d.seen.Add(rls)
	}
	return rls, err
}

// Query implements driver.Driver.
func (d *recordDriver) Query(labels map[string]string) ([]*release.Release, error) {
	list, err := d.CarefulDriver.Query(labels)
	for _, rls := range list {
		d.seen.Add(rls)
	}
	return list, err
}

// List implements driver.Driver.
func (d *recordDriver) List(filter func(*release.Release) bool) ([]*release.Release, error) {
	list, err := d.CarefulDriver.List(filter)
	for _, rls := range list {
		d.seen.Add(rls)
	}
	return list, err
}
