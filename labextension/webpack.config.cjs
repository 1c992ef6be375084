// Numbers of modules come from the order in which they are imported. The usual ones come from their
// paths, and with them from the folder in which the panel was built: no one else could build the same.
module.exports = { optimization: { moduleIds: 'natural' } };
