module github.com/gradlab/gradlab

go 1.26
