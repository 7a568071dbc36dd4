"""stub"""
def build_images(cluster, say=print): return []
