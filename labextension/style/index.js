import '../../jupyter_dist/views/static/topology.css';
import './panel.css';
